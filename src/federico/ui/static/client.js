// One client: whom it trusts over the rounds and why, its figures, its data, its bytes.
import { bars, colorOf, lineChart } from "./charts.js";
import { element, folded, paragraphs, table } from "./elements.js";
import { bytesText, countText, listed, percentText } from "./words.js";
import { usedAndAlone } from "./worth.js";

const MOST_LABELS = 30;

// groupOf says the number of the group of a client, for its colour.
export function aboutClient(client, groupOf) {
  const lines = client.series.map((series) => ({
    name: series.owner === client.client ? `${series.owner} (its own)` : series.owner,
    color: series.owner === client.client ? "var(--ink)" : colorOf(groupOf(series.owner)),
    x: client.rounds,
    y: series.weights,
  }));
  const figures = client.figures.map((metric) => usedAndAlone(`${metric.name} of ${client.client}`, metric));
  return [
    element("h2", {}, `Client ${client.client}`),
    element("p", { id: "sentence" }, client.sentence || "This method has no weights over clients' models."),
    lines.length ? lineChart(`Whose models ${client.client} trusts`, "round", "weight (%)", lines) : null,
    element("h3", {}, "Why its trust moved"),
    ...moves(client),
    element("h3", {}, "Its data and bytes"),
    element("p", {}, `${countText(client.train, "training sample")}, ${countText(client.test, "test sample")}; it sent ${bytesText(client.sent)} and received ${bytesText(client.received)} to train.`),
    ...histogram(client),
    figures.length ? folded("Its figures over the rounds", figures) : null,
  ];
}

function moves(client) {
  if (!client.moves.length) return paragraphs(["It never moved by five points or more from a round to the next."]);
  const items = client.moves.map((move) => {
    const owner = move.owner === client.client ? "its own model" : move.owner;
    const change = `Round ${move.round}: its trust in ${owner} went from ${percentText(move.before)} to ${percentText(move.after)}`;
    if (!move.judged.length) return element("li", {}, `${change}.`);
    const where = client.judged_on ? ` on ${client.judged_on}` : "";
    return element("li", {}, `${change}, when it judged ${listed(move.judged)}${where}.`);
  });
  return [element("ul", {}, items)];
}

function histogram(client) {
  if (!client.counts.length) return [];
  const rows = client.counts.map((count, label) => ({ name: client.labels[label], value: count, text: String(count) }));
  const most = rows.slice().sort((one, other) => other.value - one.value).slice(0, MOST_LABELS);
  const shown = rows.length > MOST_LABELS ? most : rows;
  return [
    bars("Training samples of each label", shown),
    folded("As a table", table("Training samples", ["label", "samples"], rows.map((row) => [row.name, row.text]))),
  ];
}
