// What does it cost? Bytes and seconds by round, phase and client, and what they buy.
import { LINE_COLORS, lineChart } from "./charts.js";
import { choice, columnChoice, element, paragraphs, stacked, table } from "./elements.js";
import { chosenCell, chosenColumn, goTo, goToCell, load, NotReachedError } from "./source.js";
import { axisName, inUnit, bytesText, called, figureText, percentText, scaled, secondsText, timeUnitOf, unitOf, unitOfMetric } from "./words.js";
import { cellOptions, rowColor } from "./worth.js";

const MOST_CLIENTS = 200;
const MOST_IN_WORDS = 3;
const EVERYONE = "";
const SHARED_OUT = "A simulation works for many clients at once: the seconds of one are its share of those of all, by the samples that went through models for it.";
const NOT_SHARED_OUT = "Seconds are those of all clients together: a simulation works for many at once, and how much of it was for which client was not written down (it is with fewer than 1,000 clients in one process).";

export async function showCost(name, given) {
  const run = await load("run", name);
  const metric = run.metric;
  const column = chosenColumn(run.rows);
  const rows = column.rows;
  const against = (title, xName, xUnit, xOf) => lineChart(title, xName, axisName(metric), rows.map((row) => ({
    name: row.title,
    color: rowColor(row),
    x: xOf(row),
    y: scaled(row.mean, metric),
  })), { whole: false, unit: unitOfMetric(metric), xUnit });
  const moved = rows.map((row) => row.bytes.at(-1) ?? 0);
  const [size, unit] = unitOf(rows.flatMap((row) => row.bytes));
  const spent = rows.map((row) => row.seconds.at(-1) ?? 0);
  const [time, timeName] = timeUnitOf(spent);
  const lines = rows.map((row, place) => [
    row.title,
    figureText(row.value, metric),
    inUnit(moved[place], [size]),
    inUnit(spent[place], [time]),
  ]);
  return [
    element("h1", {}, "What does it cost?"),
    ...paragraphs(inWords(rows).map((row) => whatItBuys(row, metric))),
    columnChoice(column, (chosen) => goTo("column", chosen)),
    element("div", { class: "beside", "data-lasting": "" },
      against("What bytes buy", `${unit} moved so far`, unit, (row) => row.bytes.map((count) => count / size)),
      against("What seconds buy", "processor seconds so far", "s", (row) => row.seconds)),
    ...paragraphs([rows.length > 1 ? "A dot is where a line that is shorter than others ends." : ""], "soft"),
    stacked(table("One run of each method", ["method", axisName(metric), `moved to train (${unit})`, `processor time (${timeName})`], lines)),
    ...(await ofCell(run, given)),
  ];
}

// Of many methods only FedeRiCo is put into words.
function inWords(rows) {
  const ours = rows.filter((row) => row.method === "federico");
  return rows.length > MOST_IN_WORDS && ours.length ? ours : rows;
}

// The answer in words, for a method that is not training alone itself.
function whatItBuys(row, metric) {
  if (row.method === "local" || row.value === null || row.alone === null || !row.bytes.length) return "";
  const gain = metric.higher ? row.value - row.alone : row.alone - row.value;
  const size = figureText(Math.abs(gain), metric);
  const points = metric.percent ? `${size} points` : `${size} of ${metric.name}`;
  const spent = `${bytesText(row.bytes.at(-1))} and ${secondsText(row.seconds.at(-1) ?? 0)} of processor time`;
  if (gain > 0) return `${row.title}: ${spent} buy ${points} over training alone.`;
  if (gain < 0) return `${row.title}: ${spent} buy nothing: it is ${points} below training alone.`;
  return `${row.title}: ${spent} buy nothing over training alone.`;
}

async function ofCell(run, given) {
  if (!run.cells.length) return paragraphs(["Only results were kept of this run: what each round took is not known."], "soft");
  const { wanted, cell } = await chosenCell(run, given);
  const peer = cell.clients.includes(given.get("peer")) ? given.get("peer") : EVERYONE;
  const peers = [[EVERYONE, "all together"], ...cell.clients.map((client) => [client, client])];
  return [
    element("h2", {}, `${cell.name}, seed ${cell.seed}`),
    element("div", { class: "controls" },
      choice("Method and seed", cellOptions(run), wanted, goToCell),
      choice("Of whom", peers, peer, (client) => goTo("peer", client))),
    ...(await ofPeer(run, wanted, cell, peer)),
    ...clientTable(cell),
  ];
}

async function ofPeer(run, wanted, cell, peer) {
  if (peer === EVERYONE) {
    const ofAll = "Seconds are those of all clients together.";
    return costOfRounds(cell, "in all messages", [["to train", cell.moved], ["to evaluate", cell.evaluation_moved]], ofAll);
  }
  let client;
  try {
    client = await load("client", run.name, wanted, peer);
  } catch (error) {
    if (error instanceof NotReachedError) throw error;
    // Such as a report that had no room for its clients: the rest is there.
    return paragraphs([error.message], "note");
  }
  const [sent, received, evaluationSent, evaluationReceived] = client.traffic;
  const isShared = Object.keys(client.phases).length > 0;
  const seconds = isShared ? { phases: client.phases } : { phases: cell.phases, phaseRounds: cell.rounds };
  return costOfRounds({ rounds: client.rounds, ...seconds }, `in messages of ${called(peer)}`, [
    ["sent to train", sent],
    ["received to train", received],
    ["sent to evaluate", evaluationSent],
    ["received to evaluate", evaluationReceived],
  ], isShared ? `${SHARED_OUT} What is not done for one client, such as writing records, is left out.` : NOT_SHARED_OUT);
}

// Bytes and seconds of each round: `traffic` has names and bytes by round.
export function costOfRounds({ rounds, phases, phaseRounds = rounds }, whose, traffic, remark = "") {
  const [size, unit] = unitOf(traffic.flatMap(([, counts]) => counts));
  const named = Object.entries(phases).map(([phase, seconds]) => [phaseText(phase), seconds]);
  const lineOf = (x) => ([name, y], number) => ({ name, color: LINE_COLORS[number % LINE_COLORS.length], x, y });
  const bytes = traffic.map(([name, counts]) => [name, counts.map((count) => count / size)]);
  return [
    element("div", { class: "beside", "data-lasting": "" },
      lineChart("Bytes in each round", "round", `${unit} ${whose}`, bytes.map(lineOf(rounds)), { fromZero: true, unit }),
      lineChart("Seconds in each round", "round", "seconds by the clock on the wall", named.map(lineOf(phaseRounds)), { fromZero: true, unit: "s" })),
    ...paragraphs([remark], "soft"),
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
  const [time, name] = timeUnitOf(sums.map(([, seconds]) => seconds));
  const lines = sums.map(([phase, seconds]) => [phase, inUnit(seconds, [time]), percentText(total ? seconds / total : 0)]);
  return [table("Seconds by phase", ["phase", `time (${name})`, "share"], lines)];
}

function clientTable(cell) {
  const columns = [cell.sent, cell.received, cell.evaluation_sent, cell.evaluation_received];
  const [size, unit] = unitOf(columns.flat());
  const headings = ["client", "sent to train", "received to train", "sent to evaluate", "received to evaluate"].map((text, place) => (place ? `${text} (${unit})` : text));
  const [time, timeName] = timeUnitOf(cell.seconds);
  const isShared = cell.seconds.length > 0;
  if (isShared) headings.push(`time (${timeName})`);
  const lines = cell.clients.slice(0, MOST_CLIENTS).map((client, place) => {
    const bytes = columns.map((counts) => inUnit(counts[place], [size]));
    return [client, ...bytes, ...(isShared ? [inUnit(cell.seconds[place], [time])] : [])];
  });
  const more = cell.clients.length - MOST_CLIENTS;
  return [
    stacked(table("Each client in all rounds", headings, lines)),
    ...paragraphs([more > 0 ? `${more} more clients are not listed.` : "", isShared ? SHARED_OUT : NOT_SHARED_OUT], "soft"),
  ];
}
