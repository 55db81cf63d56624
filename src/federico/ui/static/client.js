// One client: whom it trusts over the rounds and why, its figures, its data, its bytes.
import { bars, colorOf, lineChart } from "./charts.js";
import { element, folded, paragraphs, table } from "./elements.js";
import { bytesText, countText, listed, natsText, percentText } from "./words.js";
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
    element("h2", {}, /^client\b/i.test(client.client) ? client.client : `Client ${client.client}`),
    element("p", { id: "sentence" }, client.sentence ? `After round ${client.last_round}: ${client.sentence}` : "This method has no weights over clients' models."),
    lines.length ? lineChart(`Whose models ${client.client} trusts`, "round", "weight (%)", lines) : null,
    element("h3", {}, "Why its trust moved"),
    ...moves(client),
    element("h3", {}, "Its data and bytes"),
    element("p", {}, `${countText(client.train, "training sample")}, ${countText(client.test, "test sample")}; it sent ${bytesText(client.sent)} and received ${bytesText(client.received)} to train, and sent ${bytesText(client.evaluation_sent)} and received ${bytesText(client.evaluation_received)} to evaluate.`),
    ...histogram(client),
    figures.length ? folded("Its figures over the rounds", figures) : null,
  ];
}

function moves(client) {
  if (!client.moves.length) return paragraphs(["It never moved by five points or more from a round to the next."]);
  const items = client.moves.map((move) => {
    const owner = move.owner === client.client ? "its own model" : `the model of ${move.owner}`;
    const rounds = move.round - move.since > 1 ? `Rounds ${move.since + 1} to ${move.round}` : `Round ${move.round}`;
    const change = `${rounds}: its trust in ${owner} went from ${percentText(move.before)} to ${percentText(move.after)}.`;
    return element("li", {}, `${change} ${why(client, move)}`);
  });
  const worth = client.moves.some((move) => move.judged.some((each) => each.gain !== null));
  const unit = worth ? "A model is worth as many nats as it explains the held-out samples better than a guess that knows only how frequent each label is, or the mean; trust grows with the square of what it is worth." : "";
  return [element("ul", {}, items), ...paragraphs([unit], "soft")];
}

// What the client found when it judged models in that round.
function why(client, move) {
  if (!move.judged.length) return "";
  const where = client.judged_on ? ` on ${client.judged_on}` : "";
  const found = move.judged.map((each) => {
    const name = each.owner === client.client ? "its own" : each.owner;
    return each.gain === null ? name : `${name} ${natsText(each.gain)}`;
  });
  const known = move.judged.some((each) => each.gain !== null);
  return known ? `It found${where}: ${listed(found)}.` : `It judged ${listed(found)}${where}.`;
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
