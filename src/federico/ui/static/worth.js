// Is it worth it? The result in a sentence, what each client gains, and any metric over the rounds.
import { gainChart, lineChart } from "./charts.js";
import { choice, columnChoice, element, folded, givenTable, paragraphs, table } from "./elements.js";
import { whenFree } from "./hands.js";
import { renewView } from "./renew.js";
import { address, chosenCell, chosenColumn, frozen, goTo, goToCell, link, load, NotReachedError, remember } from "./source.js";
import { agoText, axisName, countText, figureText, goesOn, percentText, scaled, unitOfMetric } from "./words.js";

const MOST_BARS = 100;
const HOW_SURE = "By samples that the client held out of training: how probable it is that its collaborators' models do better than the one trained alone. The same samples chose whom to trust, so it is rather too sure.";
// Colours that are hard to see on a dark page, and what takes their place there.
const TOO_DARK = { "#000000": "var(--ink)", "#0072b2": "var(--better)" };
// Where the rounds of a cell are shown: what was read of them stays in sight until newer ones are there.
let later = { run: null, cell: null, section: null, isRead: false };

export async function showWorth(name, given) {
  const run = await load("run", name);
  const column = chosenColumn(run.rows);
  return [
    run.name.split("/").at(-1) === run.title ? null : element("p", { class: "soft" }, run.title),
    element("h1", {}, run.headline),
    ...paragraphs([run.trust]),
    ...paragraphs([`${run.extent}.`, run.paper], "soft"),
    ...paragraphs([[run.progress, goingOn(run)].filter(Boolean).join(" "), run.warning, leftOut(run)], "note"),
    ...differences(run),
    figure(run),
    columnChoice(column, (chosen) => goTo("column", chosen)),
    lineChart("All methods", "round", meanOf(run), curves(column.rows, run.metric), { unit: unitOfMetric(run.metric) }),
    ...whoGains(run, column.rows, given),
    ...anyMetric(run, given),
    element("h2", {}, "Tables"),
    ...run.tables.map(givenTable),
    ...paragraphs([run.notes], "soft"),
    ...clients(run),
    settings(run),
    origin(run),
  ];
}

function meanOf(run) {
  const isOverSeeds = run.rows.some((row) => row.seeds > 1);
  return `${axisName(run.metric)}, mean over clients${isOverSeeds ? " and seeds" : ""}`;
}

// A report that would be too large to mail holds only the first cells, or no views of clients.
function leftOut(run) {
  const missing = [];
  if (run.left_out) missing.push(countText(run.left_out, "cell"));
  if (run.without_clients) missing.push(`the clients of ${countText(run.without_clients, "cell")}`);
  const parts = [];
  if (missing.length) parts.push(`${missing.join(" and ")} did not fit into this report.`);
  if (run.thinned > 1) parts.push(`To fit, clients are shown at one round of every ${run.thinned}.`);
  return parts.length ? `${parts.join(" ")} All of it is shown by federico ui.` : "";
}

// A report says how far the run was; whether it still goes on can be seen only where it runs.
function goingOn(run) {
  if (frozen || !run.pace) return "";
  const last = `The last round came ${agoText(run.pace.last)}`;
  if (goesOn(run.pace)) return `It is running. ${last}.`;
  return `${last}: nobody seems to work on it any more. Start the same command again to go on.`;
}

export function rowColor(row) {
  return TOO_DARK[row.color.toLowerCase()] || row.color;
}

function curves(rows, metric) {
  return rows.map((row) => ({
    name: row.title,
    color: rowColor(row),
    x: row.rounds,
    y: scaled(row.mean, metric),
    sd: scaled(row.sd, metric),
  }));
}

function differences(run) {
  if (!run.differences.length) return [];
  const items = run.differences.map((each) => element("li", {}, each));
  return [element("div", { class: "note" }, element("p", {}, `${run.beside}:`), element("ul", {}, items))];
}

function figure(run) {
  if (!run.figure) return null;
  const image = element("img", { src: run.figure.address, alt: run.figure.caption });
  const dark = element("source", { media: "(prefers-color-scheme: dark)", srcset: run.figure.dark });
  const picture = element("picture", {}, dark, image);
  return element("figure", { class: "card picture" }, picture, element("figcaption", {}, run.figure.caption));
}

function whoGains(run, rows, given) {
  const known = rows.filter((row) => row.clients.length);
  if (!known.length) return paragraphs([whyNoGains(run)], "soft");
  const holder = element("div");
  const draw = (chosen) => {
    const row = known.find((each) => each.name === chosen) || known[0];
    holder.replaceChildren(...gains(run, row));
  };
  draw(given.get("row"));
  const change = (chosen) => {
    remember("row", chosen);
    draw(chosen);
  };
  const options = known.map((row) => [row.name, row.name]);
  const choose = known.length > 1 ? choice("Method", options, given.get("row"), change) : null;
  return [
    element("h2", {}, "Who gains?"),
    ...paragraphs(run.worth),
    element("div", { class: "controls" }, choose),
    holder,
    ...run.worth_tables.map((each) => folded(each.title, givenTable(each))),
    ...paragraphs([run.worth_note], "soft"),
  ];
}

function whyNoGains(run) {
  if (run.rows.some((row) => row.method === "local")) {
    return "What each client gains is not known here, as the methods of this run train no private model; the tables compare all clients together with training alone.";
  }
  return "What each client would be alone is not known here: the methods of this run train no private model. Add the method local to compare with training alone.";
}

function overSeeds(row) {
  if (row.clients_of_seed !== null) return `, seed ${row.clients_of_seed}`;
  return row.seeds > 1 ? `, mean over ${row.seeds} seeds` : "";
}

function gains(run, row) {
  const metric = run.metric;
  const shown = row.clients.slice(0, MOST_BARS);
  const better = row.clients.filter((each) => each.gain > 0).length;
  const hasFedAvg = row.clients.some((each) => each.fedavg !== null);
  const lines = row.clients.map((each) => [
    element("a", { href: link("trust", { run: run.name, client: each.client }) }, each.client),
    figureText(each.alone, metric),
    ...(hasFedAvg ? [figureText(each.fedavg, metric)] : []),
    figureText(each.together, metric),
    figureText(each.used, metric),
    figureText(each.gain, metric, true),
    percentText(each.share),
    element("span", { title: HOW_SURE }, each.sure),
  ]);
  const inUnit = (value) => scaled([value], metric)[0];
  const values = shown.map((each) => ({
    name: each.client,
    alone: inUnit(each.alone),
    fedavg: inUnit(each.fedavg),
    used: inUnit(each.used),
    gain: each.gain,
    text: figureText(each.gain, metric, true),
  }));
  const verb = better === 1 ? "is" : "are";
  const title = `${row.name}${overSeeds(row)}: ${better} of ${countText(row.clients.length, "client")} ${verb} better off than alone`;
  const more = row.clients.length - shown.length;
  return [
    gainChart(title, axisName(metric), metric.percent ? "gain (points)" : "gain", values),
    ...paragraphs([more > 0 ? `${more} more are in the table.` : ""], "soft"),
    folded(`Each client: alone${hasFedAvg ? ", FedAvg" : ""} and together`, table(`Each client, ${axisName(metric)}`, ["client", "alone", ...(hasFedAvg ? ["FedAvg"] : []), "with collaborators", "used", metric.percent ? "gain (points)" : "gain", "share of collaborators", "how sure"], lines)),
  ];
}

// The rounds of a cell may take seconds to read: the rest of the page does not wait for them.
function anyMetric(run, given) {
  if (!run.cells.length) return paragraphs(["Only results were kept of this run: it has no rounds to look into."], "soft");
  const cell = given.get("cell");
  if (later.run !== run.name || later.cell !== cell) {
    const reading = paragraphs(["Reading the rounds\u2026"], "soft");
    const section = element("section", { class: "later", "data-lasting": "" }, reading);
    later = { run: run.name, cell, section, isRead: false };
  }
  fillLater(later, run, given);
  return [element("h2", {}, "Any metric, over the rounds"), later.section];
}

async function fillLater(mine, run, given) {
  try {
    const found = await chosenCells(run, given);
    await whenFree();
    renewView(mine.section, metricsOf(run, found));
    mine.isRead = true;
  } catch (error) {
    if (mine.isRead && error instanceof NotReachedError) return;
    mine.section.replaceChildren(element("p", { class: "note" }, error.message));
  }
}

// A cell, or the mean over the seeds of a row, which the address calls by this and the row.
const MEAN = "mean of ";

async function chosenCells(run, given) {
  const wanted = given.get("cell") || "";
  const row = wanted.startsWith(MEAN) ? wanted.slice(MEAN.length) : null;
  const members = run.cells.filter((each) => each.row === row);
  if (!members.length) {
    const { wanted: cell, cell: found } = await chosenCell(run, given);
    return { wanted: cell, title: `${found.name}, seed ${found.seed}`, figures: found.figures };
  }
  const cells = await Promise.all(members.map((each) => load("cell", run.name, each.cell)));
  return { wanted, title: `${row}, mean over ${cells.length} seeds`, figures: meanFigures(cells) };
}

// Every metric that all cells know, in the rounds that all of them have.
function meanFigures(cells) {
  const found = [];
  for (const metric of cells[0].figures) {
    const others = cells.map((cell) => cell.figures.find((each) => each.key === metric.key));
    if (others.includes(undefined)) continue;
    const used = meanSeries(others.map((each) => [each.rounds, each.used]));
    const alone = meanSeries(others.map((each) => [each.alone_rounds, each.alone]));
    const together = meanSeries(others.map((each) => [each.alone_rounds, each.together]));
    found.push({ ...metric, rounds: used.rounds, used: used.values, sd: used.sd, alone_rounds: alone.rounds, alone: alone.values, together: together.values });
  }
  return found;
}

function meanSeries(series) {
  const byRound = series.map(([rounds, values]) => new Map(rounds.map((round, place) => [round, values[place]])));
  const rounds = series[0][0].filter((round) => byRound.every((each) => each.has(round)));
  const values = [];
  const sd = [];
  for (const round of rounds) {
    const seen = byRound.map((each) => each.get(round));
    const isKnown = !seen.includes(null);
    const mean = seen.reduce((one, other) => one + other, 0) / seen.length;
    const squares = seen.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    values.push(isKnown ? mean : null);
    sd.push(isKnown && seen.length > 1 ? Math.sqrt(squares / (seen.length - 1)) : null);
  }
  return { rounds, values, sd };
}

function metricsOf(run, { wanted, title, figures }) {
  const chosen = address().given.get("metric");
  const holder = element("div");
  const draw = (key) => {
    const metric = figures.find((each) => each.key === key) || figures[0];
    if (metric) holder.replaceChildren(usedAndAlone(title, metric));
    else holder.replaceChildren(...paragraphs(["No round was evaluated yet."]));
  };
  draw(chosen);
  const change = (key) => {
    remember("metric", key);
    draw(key);
  };
  const metrics = figures.map((each) => [each.key, each.name]);
  return [
    element("div", { class: "controls" }, choice("Method and seed", [...cellOptions(run), ...meanOptions(run)], wanted, goToCell), choice("Metric", metrics, chosen, change)),
    holder,
  ];
}

export function cellOptions(run) {
  return run.cells.map((each) => [each.cell, each.name]);
}

function meanOptions(run) {
  const rows = run.cells.map((each) => each.row);
  const several = [...new Set(rows)].filter((row) => rows.filter((each) => each === row).length > 1);
  return several.map((row) => [MEAN + row, `${row}, mean over seeds`]);
}

export function usedAndAlone(title, metric) {
  const sd = metric.sd ? scaled(metric.sd, metric) : undefined;
  const lines = [{ name: "used", color: "var(--better)", x: metric.rounds, y: scaled(metric.used, metric), sd }];
  if (metric.alone.length > 0) {
    lines.push({ name: "alone", color: "var(--soft)", x: metric.alone_rounds, y: scaled(metric.alone, metric) });
    lines.push({ name: "with collaborators", color: "#cc79a7", x: metric.alone_rounds, y: scaled(metric.together, metric) });
  }
  return lineChart(title, "round", axisName(metric), lines, { unit: unitOfMetric(metric) });
}

function clients(run) {
  if (!run.clients_table) return [];
  return [folded("Every method by client", givenTable(run.clients_table), paragraphs([run.clients_note], "soft"))];
}

function settings(run) {
  const lines = Object.entries(run.settings);
  return lines.length ? folded("Settings", table("Settings", ["setting", "value"], lines)) : null;
}

function origin(run) {
  const commands = run.sources.map((source) => element("p", {}, element("code", {}, source.command), ` ${source.part} ${source.origin}`));
  const hashes = run.origins.map((each) => [`seed ${each.seed}`, element("code", {}, each.data), element("code", {}, each.partition)]);
  const versions = Object.entries(run.versions);
  return folded("Where it comes from",
    commands,
    hashes.length ? table("Hashes", ["seed", "data", "partition"], hashes) : null,
    versions.length ? table("Versions", ["package", "version"], versions) : null);
}
