// Data: who has which labels, how many samples, and which are missing.
import { choice, drawn, element, folded, paragraphs, stacked, table } from "./elements.js";
import { chosenCell, goToCell, load } from "./source.js";
import { countText, listed, shortened } from "./words.js";

const STEP = 26;
const LEFT = 110;
const MOST_CLIENTS = 64;
const MOST_LABELS = 40;
const MOST_IN_TABLE = 300;
const MOST_OPEN = 40;

export async function showData(name, given) {
  const run = await load("run", name);
  const { wanted, cell } = await chosenCell(run, given);
  const data = cell.data;
  const cells = run.cells.map((each) => [each.cell, each.name]);
  const total = data.train.reduce((one, other) => one + other, 0);
  const fewest = Math.min(...data.train);
  const most = Math.max(...data.train);
  const lines = cell.clients.slice(0, MOST_IN_TABLE).map((client, place) => [
    client,
    data.distribution ? String(data.distribution[place]) : "-",
    data.train[place].toLocaleString("en"),
    data.test[place].toLocaleString("en"),
    gaps(data, place),
  ]);
  const more = cell.clients.length - MOST_IN_TABLE;
  const sizes = stacked(table("Sizes and gaps", ["client", "distribution", "training samples", "test samples", "labels it has none of"], lines));
  return [
    element("h1", {}, "Data"),
    element("div", { class: "controls" }, choice("Cell", cells, wanted, goToCell)),
    element("p", {}, `${countText(cell.clients.length, "client")} with ${countText(total, "training sample")}, from ${fewest.toLocaleString("en")} to ${most.toLocaleString("en")} each.`),
    picture(cell),
    cell.clients.length > MOST_OPEN ? folded("Sizes and gaps of each client", sizes) : sizes,
    ...paragraphs([more > 0 ? `${countText(more, "more client")} not listed.` : ""], "soft"),
    element("p", {}, "Hash of the data ", element("code", {}, data.data_hash), ", of the partition ", element("code", {}, data.partition_hash), "."),
  ];
}

function gaps(data, place) {
  if (!data.counts.length) return "-";
  const missing = data.labels.filter((_, label) => !data.counts[place][label]);
  return missing.length ? listed(missing) : "none";
}

// Clients down, labels across; the area of a dot is the count.
function picture(cell) {
  const data = cell.data;
  if (!data.counts.length) return element("p", { class: "soft" }, "The targets are numbers: there are no labels to count.");
  const clients = cell.clients.slice(0, MOST_CLIENTS);
  const labels = data.labels.slice(0, MOST_LABELS);
  const counts = data.counts.slice(0, MOST_CLIENTS).map((row) => row.slice(0, MOST_LABELS));
  const most = Math.max(1, ...counts.map((row) => Math.max(...row)));
  const width = LEFT + STEP * labels.length;
  const height = 30 + STEP * clients.length;
  const svg = drawn("svg", {
    class: "dots",
    viewBox: `0 0 ${width} ${height}`,
    width,
    height,
    role: "img",
    "aria-label": "Samples of each label (column) that each client (row) has; the same is in a table",
  });
  labels.forEach((label, column) => {
    svg.append(drawn("text", { x: LEFT + STEP * (column + 0.5), y: 16, "text-anchor": "middle" }, shortened(label, 4)));
  });
  clients.forEach((client, row) => {
    const y = 30 + STEP * (row + 0.5);
    svg.append(drawn("text", { class: "name", x: LEFT - 8, y: y + 4, "text-anchor": "end" }, shortened(client)));
    counts[row].forEach((count, column) => {
      if (!count) return;
      const radius = 12 * Math.sqrt(count / most);
      const dot = drawn("circle", { cx: LEFT + STEP * (column + 0.5), cy: y, r: Math.max(radius, 0.7), fill: "var(--better)" });
      dot.append(drawn("title", {}, `${client}, ${labels[column]}: ${count}`));
      svg.append(dot);
    });
  });
  const left = [];
  if (cell.clients.length > MOST_CLIENTS) left.push(`${cell.clients.length - MOST_CLIENTS} more clients`);
  if (data.labels.length > MOST_LABELS) left.push(`${data.labels.length - MOST_LABELS} more labels`);
  const note = left.length ? ` Not drawn: ${left.join(" and ")}.` : "";
  const lines = clients.map((client, row) => [client, ...counts[row].map(String)]);
  return element("div", {},
    element("figure", { class: "card chart", tabindex: "0", "aria-label": "Who has what", "data-keep": "who has what" }, element("figcaption", {}, element("strong", {}, "Who has what"), ` The area is the number of samples; the largest are ${most}.${note}`), svg),
    folded("Counts as a table", table("Training samples", ["client", ...labels], lines)));
}
