// What does it cost? Bytes and seconds by round, phase and client, and what they buy.
import { lineChart } from "./charts.js";
import { choice, element, paragraphs, stacked, table } from "./elements.js";
import { chosenCell, goToCell, load } from "./source.js";
import { axisName, bytesText, figureText, percentText, scaled, secondsText, unitOf } from "./words.js";
import { rowColor } from "./worth.js";

const LINE_COLORS = ["var(--better)", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00"];
const MOST_CLIENTS = 200;

export async function showCost(name, given) {
  const run = await load("run", name);
  const metric = run.metric;
  const against = (title, unit, xOf) => lineChart(title, unit, axisName(metric), run.rows.map((row) => ({
    name: row.name,
    color: rowColor(row),
    x: xOf(row),
    y: scaled(row.mean, metric),
  })), { whole: false });
  const [size, unit] = unitOf(run.rows.flatMap((row) => row.bytes));
  const lines = run.rows.map((row) => [
    row.name,
    figureText(row.value, metric),
    bytesText(row.bytes.at(-1) ?? 0),
    secondsText(row.seconds.at(-1) ?? 0),
  ]);
  return [
    element("h1", {}, "What does it cost?"),
    element("div", { class: "beside", "data-lasting": "" },
      against("What bytes buy", `${unit} moved so far`, (row) => row.bytes.map((count) => count / size)),
      against("What seconds buy", "processor seconds so far", (row) => row.seconds)),
    stacked(table("One run of each method", ["method", axisName(metric), "moved to train", "processor time"], lines)),
    ...(await ofCell(run, given)),
  ];
}

async function ofCell(run, given) {
  if (!run.cells.length) return paragraphs(["Only results were kept of this run: what each round took is not known."], "soft");
  const { wanted, cell } = await chosenCell(run, given);
  const cells = run.cells.map((each) => [each.cell, each.name]);
  return [
    element("h2", {}, `${cell.name}, seed ${cell.seed}`),
    element("div", { class: "controls" }, choice("Cell", cells, wanted, goToCell)),
    ...costOfRounds(cell, "of all messages", [["to train", cell.moved], ["to evaluate", cell.evaluation_moved]]),
    ...clientTable(cell),
  ];
}

// Bytes and seconds of each round: `traffic` has names and bytes by round.
export function costOfRounds({ rounds, phases }, whose, traffic) {
  const [size, unit] = unitOf(traffic.flatMap(([, counts]) => counts));
  const named = Object.entries(phases).map(([phase, seconds]) => [phaseText(phase), seconds]);
  const lineOf = ([name, y], number) => ({ name, color: LINE_COLORS[number % LINE_COLORS.length], x: rounds, y });
  const bytes = traffic.map(([name, counts]) => [name, counts.map((count) => count / size)]);
  return [
    element("div", { class: "beside", "data-lasting": "" },
      lineChart("Bytes in each round", "round", `${unit} ${whose}`, bytes.map(lineOf), { fromZero: true }),
      lineChart("Seconds in each round", "round", "seconds by the clock on the wall", named.map(lineOf), { fromZero: true })),
    ...phaseTable(named),
  ];
}

// The two steps of expectation and maximisation have names of their own.
function phaseText(phase) {
  if (phase === "e_step") return "E-step";
  if (phase === "m_step") return "M-step";
  return phase.replaceAll("_", " ");
}

function phaseTable(phases) {
  if (!phases.length) return paragraphs(["What each phase took was not written down."], "soft");
  const sums = phases.map(([phase, seconds]) => [phase, seconds.reduce((one, other) => one + other, 0)]);
  const total = sums.reduce((sum, [, seconds]) => sum + seconds, 0);
  const lines = sums.map(([phase, seconds]) => [phase, secondsText(seconds), percentText(total ? seconds / total : 0)]);
  return [table("Seconds by phase", ["phase", "time", "share"], lines)];
}

function clientTable(cell) {
  const lines = cell.clients.slice(0, MOST_CLIENTS).map((client, place) => [client, ...[cell.sent, cell.received, cell.evaluation_sent, cell.evaluation_received].map((counts) => bytesText(counts[place]))]);
  const more = cell.clients.length - MOST_CLIENTS;
  return [
    stacked(table("Bytes by client, in all rounds", ["client", "sent to train", "received to train", "sent to evaluate", "received to evaluate"], lines)),
    ...paragraphs([more > 0 ? `${more} more clients are not listed.` : ""], "soft"),
  ];
}
