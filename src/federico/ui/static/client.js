// One client: whom it trusts over the rounds and why, its figures, its data, its bytes.
import { bars, LINE_COLORS, lineChart } from "./charts.js";
import { element, folded, paragraphs, table } from "./elements.js";
import { bytesText, called, countText, listed, natsText, percentText } from "./words.js";
import { usedAndAlone } from "./worth.js";

const MOST_LABELS = 30;

// The parts of the view, and what shows in it which round the slider is at.
export function aboutClient(client) {
  const others = client.series.filter((series) => series.owner !== client.client);
  const lines = client.series.map((series) => {
    const isOwn = series.owner === client.client;
    const number = others.indexOf(series);
    return {
      name: isOwn ? `${series.owner} (its own)` : series.owner,
      color: isOwn ? "var(--ink)" : LINE_COLORS[number % LINE_COLORS.length],
      dash: isOwn ? 0 : number + 1,
      x: client.rounds,
      y: series.weights,
    };
  });
  const chart = lines.length ? lineChart(`Whose models ${called(client.client)} trusts`, "round", "weight (%)", lines, { unit: "%" }) : null;
  const figures = client.figures.map((metric) => usedAndAlone(`${metric.name} of ${client.client}`, metric));
  const parts = [
    element("h2", {}, /^client\b/i.test(client.client) ? client.client : `Client ${client.client}`),
    element("p", { id: "sentence" }, client.sentence ? `After round ${client.last_round}: ${client.sentence}` : "The records have no weights of it over clients' models."),
    chart,
    element("h3", {}, "Why its trust moved"),
    ...moves(client),
    element("h3", {}, "Its data and bytes"),
    element("p", {}, `${samples(client)}It sent ${bytesText(client.sent)} and received ${bytesText(client.received)} to train, and sent ${bytesText(client.evaluation_sent)} and received ${bytesText(client.evaluation_received)} to evaluate.`),
    ...histogram(client),
    figures.length ? folded("Its figures over the rounds", figures) : null,
  ];
  return { parts, note: chart?.note };
}

// Nothing of the samples where nobody wrote down how many there are.
function samples(client) {
  if (!client.train) return "";
  return `${countText(client.train, "training sample")}, ${countText(client.test, "test sample")}. `;
}

function moves(client) {
  if (!client.moves.length) return paragraphs(["It never moved by five points or more from a round to the next."]);
  const items = client.moves.map((move) => {
    const rounds = move.round - move.since > 1 ? `Rounds ${move.since + 1} to ${move.round}` : `Round ${move.round}`;
    const changes = move.changes.map((change, place) => {
      const owner = change.owner === client.client ? "its own model" : `the model of ${called(change.owner)}`;
      const way = change.after > change.before ? "rose" : "fell";
      return `${place ? "that" : "its trust"} in ${owner} ${way} from ${percentText(change.before)} to ${percentText(change.after)}`;
    });
    return element("li", {}, `${rounds}: ${listed(changes)}. ${why(client, move)}`);
  });
  const worth = client.moves.some((move) => move.judged.some((each) => each.gain !== null));
  const unit = worth ? "A nat is a unit of how well samples are predicted: a model is worth one nat if it makes all the held-out samples together 2.7 times as likely as a guess that knows only how frequent each label is, or the mean. Trust grows with the square of what a model is worth; one that is worth less than nothing does worse than the guess." : "";
  return [element("ul", {}, items), ...paragraphs([unit], "soft")];
}

// What the client found when it judged models in that round.
function why(client, move) {
  if (!move.judged.length) return "";
  const where = client.judged_on ? `On ${client.judged_on} it` : "It";
  const found = move.judged.map((each) => {
    const name = each.owner === client.client ? "its own model" : called(each.owner);
    return each.gain === null ? name : `${name}: ${natsText(each.gain)}`;
  });
  const known = move.judged.some((each) => each.gain !== null);
  return known ? `${where} found what models are worth: ${listed(found)}.` : `${where} judged ${listed(found)}.`;
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
