// All runs of the folder: how far each has come, and whether it was worth it.
import { spark } from "./charts.js";
import { element, paragraphs, table } from "./elements.js";
import { address, link, load } from "./source.js";
import { agoText, gainText, goesOn, listed, withUnit } from "./words.js";

const HEADINGS = ["run", "compare", "reaches", "against alone", "better off", "over the rounds", "status", "method", "data"];

export async function showRuns() {
  const runs = await load("runs");
  if (!runs.length) {
    return [
      element("h1", {}, "No runs in this folder yet"),
      element("p", {}, "Start one with ", element("code", {}, "federico run experiments/digits.toml"), ". It appears here by itself."),
    ];
  }
  const compare = element("a", { class: "button", id: "compare", "data-keep": "compare" });
  const chosen = () => address().given.getAll("with");
  const offer = (compare) => {
    const names = chosen();
    const query = new URLSearchParams(names.map((name) => ["run", name]));
    compare.textContent = names.length < 2 ? "Tick two or more runs to compare them" : `Compare ${names.length} runs`;
    if (names.length < 2) compare.removeAttribute("href");
    else compare.setAttribute("href", `#/compare?${query}`);
  };
  const tick = (name, ticked) => {
    const names = chosen().filter((each) => each !== name);
    if (ticked) names.push(name);
    const query = new URLSearchParams(names.map((each) => ["with", each]));
    history.replaceState(null, "", `#/runs?${query}`);
    // The link may have been made anew since this tick was.
    offer(document.getElementById("compare"));
  };
  offer(compare);
  const list = table("All runs", HEADINGS, runs.map((run) => line(run, chosen(), tick)));
  list.classList.add("stacked", "runs");
  return [
    element("h1", {}, "Runs"),
    list,
    element("p", { "data-lasting": "" }, compare),
    ...broken(runs),
  ];
}

function line(run, chosen, tick) {
  if (run.status === "broken") return [run.name, "", "", "", "", "", "\u2717 broken", "", ""];
  const box = element("input", {
    type: "checkbox",
    "aria-label": `Compare ${run.name}`,
    "data-keep": `tick ${run.name}`,
    onchange: (event) => tick(run.name, event.target.checked),
  });
  box.checked = chosen.includes(run.name);
  return [
    element("a", { href: link("worth", { run: run.name }) }, run.name),
    box,
    run.value === null ? "-" : `${run.metric.name} ${withUnit(run.value, run.metric)}`,
    run.value === null || run.alone === null ? "-" : gainText(run.value - run.alone, run.metric),
    run.compared ? `${run.better} of ${run.compared}` : "-",
    spark(run.spark),
    status(run),
    methods(run),
    run.data,
  ];
}

function methods(run) {
  const others = run.methods.filter((each) => each !== run.shown);
  return others.length ? `${run.shown}; also ${listed(others, 2)}` : run.shown;
}

function status(run) {
  if (run.status === "finished") return `finished, ${run.done} rounds`;
  const round = `round ${run.done} of ${run.rounds}`;
  if (!run.pace) return `begun, ${round}`;
  if (goesOn(run.pace)) return `\u25b6 running, ${round}`;
  return `\u25a0 stopped, ${round}; the last came ${agoText(run.pace.last)}`;
}

function broken(runs) {
  return paragraphs(runs.filter((run) => run.status === "broken").map((run) => `${run.name} cannot be read: ${run.error}. ${run.advice}`), "note");
}
