// All runs of the folder: how far each has come, and whether it was worth it.
import { spark } from "./charts.js";
import { element, paragraphs, table } from "./elements.js";
import { address, link, load } from "./source.js";
import { agoText, countText, dateText, gainText, goesOn, listed, withUnit } from "./words.js";

const HEADINGS = ["run", "compare", "reaches", "against alone", "better off", "over the rounds", "status", "last written", "method", "data"];

export async function showRuns() {
  const runs = (await load("runs")).sort(newestFirst);
  if (!runs.length) {
    const sites = await load("network");
    if (sites.length) return onlySites(sites.length);
    const { folder } = await load("folder");
    return [
      element("h1", {}, "No runs in this folder yet"),
      element("p", {}, "This page shows ", element("code", {}, folder), ". A run that is started there appears here by itself."),
      element("p", {}, element("code", {}, "federico init"), " writes an experiment of your own to begin with, and ", element("code", {}, "federico run FILE.toml"), " runs it into the folder ", element("code", {}, "runs"), ". To look at another folder: ", element("code", {}, "federico ui FOLDER"), "."),
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

// Whoever runs a site looks for it on the first page.
function onlySites(count) {
  return [
    element("h1", {}, `No runs in this folder, but ${count === 1 ? "a site" : `${count} sites`}`),
    element("p", {}, element("a", { class: "button", href: "#/network" }, count === 1 ? "Is it well?" : "Are they well?")),
  ];
}

// Those of which nobody knows when they were written come last, by name.
function newestFirst(one, other) {
  return (other.when ?? 0) - (one.when ?? 0) || one.name.localeCompare(other.name, "en", { numeric: true });
}

function line(run, chosen, tick) {
  if (run.status === "broken") return [run.name, "", "", "", "", "", "\u2717 broken", "", "", ""];
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
    run.when === null ? "-" : dateText(run.when),
    methods(run),
    run.data,
  ];
}

function methods(run) {
  const others = run.methods.filter((each) => each !== run.shown);
  return others.length ? `${run.shown}; also ${listed(others, 2)}` : run.shown;
}

function status(run) {
  if (run.status === "finished") return `finished, ${countText(run.done, "round")}`;
  const round = `round ${run.done.toLocaleString("en")} of ${run.rounds.toLocaleString("en")}`;
  if (!run.pace && run.done === run.rounds) return `${countText(run.missing, "run")} of its table not there`;
  if (!run.pace) return `begun, ${round}`;
  if (goesOn(run.pace)) return `\u25b6 running, ${round}`;
  return `\u25a0 stopped, ${round}; the last came ${agoText(run.pace.last)}`;
}

function broken(runs) {
  return paragraphs(runs.filter((run) => run.status === "broken").map((run) => `${run.name} cannot be read: ${run.error}. ${run.advice}`), "note");
}
