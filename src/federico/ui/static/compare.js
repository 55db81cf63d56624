// Two or more runs: curves in one picture, differences with intervals, settings that differ.
import { COLORS, lineChart } from "./charts.js";
import { columnChoice, element, stacked, table } from "./elements.js";
import { chosenColumn, goTo, load, loadComparison } from "./source.js";
import { axisName, joined, scaled, unitOfMetric } from "./words.js";

export async function showCompare(_, given) {
  const names = given.getAll("run");
  if (names.length < 2) {
    return [element("h1", {}, "Compare runs"), element("p", {}, "Tick two or more in the list of ", element("a", { href: "#/runs" }, "all runs"), ".")];
  }
  const [found, ...runs] = await Promise.all([loadComparison(names), ...names.map((name) => load("run", name))]);
  const metric = found.metric;
  const alike = runs.filter((run) => run.metric.key === metric.key);
  const column = chosenColumn(alike.flatMap((run) => run.rows));
  // A run has a colour and a shape, a method its dashes.
  const methods = [...new Set(column.rows.map((row) => row.title))];
  const curves = runs.flatMap((run, number) => run.rows.filter((row) => column.rows.includes(row)).map((row) => ({
    name: `${run.name}: ${row.title}`,
    color: COLORS[number % COLORS.length],
    dash: methods.indexOf(row.title),
    mark: number,
    x: row.rounds,
    y: scaled(row.mean, metric),
  })));
  const lines = found.lines.map((line) => [
    `${line.run}: ${line.row}`,
    line.spread ? `${line.value} \u00b1 ${line.spread}` : line.value,
    line.difference || "-",
    line.interval || "-",
    line.note,
  ]);
  const figure = alike.length === runs.length ? metric.name : "figure";
  const points = metric.percent ? " (points)" : "";
  const others = runs.filter((run) => !alike.includes(run)).map((run) => run.name);
  const leftOut = others.length ? element("p", { class: "soft" }, `Not in the picture, as they are judged by another figure: ${others.join(", ")}.`) : null;
  return [
    element("h1", {}, `Compare ${joined(names)}`),
    columnChoice(column, (chosen) => goTo("column", chosen)),
    lineChart("Over the rounds", "round", `${axisName(metric)}; a colour and a shape for each run, dashes for each method`, curves, { unit: unitOfMetric(metric) }),
    leftOut,
    element("h2", {}, "Differences"),
    stacked(table("Differences, seed by seed", ["run and row", figure, `against ${found.first}${points}`, `95 % interval${points}`, "compared"], lines)),
    element("h2", {}, "Settings that differ"),
    settings(runs),
  ];
}

function settings(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))];
  const differ = keys.filter((key) => new Set(runs.map((run) => run.settings[key])).size > 1);
  if (!differ.length) return element("p", {}, "None: the same rounds, seeds, methods and settings.");
  const lines = differ.map((key) => [key, ...runs.map((run) => run.settings[key] ?? "not there")]);
  const made = stacked(table("Settings", ["setting", ...runs.map((run) => run.name)], lines));
  made.classList.add("worded");
  return made;
}
