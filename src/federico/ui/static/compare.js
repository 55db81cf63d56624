// Two or more runs: curves in one picture, differences with intervals, settings that differ.
import { COLORS, lineChart } from "./charts.js";
import { element, stacked, table } from "./elements.js";
import { load, loadComparison } from "./source.js";
import { axisName, scaled } from "./words.js";

export async function showCompare(_, given) {
  const names = given.getAll("run");
  if (names.length < 2) {
    return [element("h1", {}, "Compare runs"), element("p", {}, "Tick two or more in the list of ", element("a", { href: "#/runs" }, "all runs"), ".")];
  }
  const [found, ...runs] = await Promise.all([loadComparison(names), ...names.map((name) => load("run", name))]);
  const metric = found.metric;
  const curves = runs.flatMap((run, number) => {
    if (run.metric.key !== metric.key) return [];
    return run.rows.map((row) => ({
      name: `${run.name}: ${row.name}`,
      color: COLORS[number % COLORS.length],
      x: row.rounds,
      y: scaled(row.mean, metric),
    }));
  });
  const lines = found.lines.map((line) => [
    `${line.run}: ${line.row}`,
    line.spread ? `${line.value} \u00b1 ${line.spread}` : line.value,
    line.difference || "-",
    line.interval || "-",
    line.note,
  ]);
  return [
    element("h1", {}, `Compare ${names.join(" and ")}`),
    lineChart("Over the rounds", "round", axisName(metric), curves),
    element("h2", {}, "Differences"),
    stacked(table("Differences, seed by seed", ["run and row", metric.name, `against ${found.first}`, "95 % interval", "compared"], lines)),
    element("h2", {}, "Settings that differ"),
    settings(runs),
  ];
}

function settings(runs) {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))];
  const differ = keys.filter((key) => new Set(runs.map((run) => run.settings[key])).size > 1);
  if (!differ.length) return element("p", {}, "None.");
  const lines = differ.map((key) => [key, ...runs.map((run) => run.settings[key] ?? "not there")]);
  return table("Settings", ["setting", ...runs.map((run) => run.name)], lines);
}
