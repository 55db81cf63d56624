// Data: who has which labels, how many samples, and which are missing.
import { bars, enlarged, fitted } from "./charts.js";
import { choice, drawn, element, folded, paragraphs, stacked, table } from "./elements.js";
import { chosenCell, goToCell, load } from "./source.js";
import { countText, listed, shortened } from "./words.js";
import { cellOptions } from "./worth.js";

// The room for a label, within these bounds; where there is not enough, the picture scrolls.
const LEAST_STEP = 17;
const MOST_STEP = 44;
const ROW = 28;
const TOP = 46;
const GROUP_GAP = 12;
const NAMES = 130;
const NAMES_PART = 0.28;
const LETTER = 7.5;
const MOST_CLIENTS = 64;
const MOST_LABELS = 40;
const MOST_IN_TABLE = 300;
const MOST_OPEN = 40;

export async function showData(name, given) {
  const run = await load("run", name);
  const { wanted, cell } = await chosenCell(run, given);
  const data = cell.data;
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
    element("div", { class: "controls" }, choice("Method and seed", cellOptions(run), wanted, goToCell)),
    element("p", {}, `${countText(cell.clients.length, "client")} with ${countText(total, "training sample")}, ${fewest === most ? most.toLocaleString("en") : `from ${fewest.toLocaleString("en")} to ${most.toLocaleString("en")}`} each.`),
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

// The clients of a distribution stand together, where distributions are known.
function byDistribution(cell) {
  const places = cell.clients.map((_, place) => place);
  const groups = cell.data.distribution;
  if (groups) places.sort((one, other) => groups[one] - groups[other] || one - other);
  return places;
}

function notDrawn(cell, labels = 0) {
  const left = [];
  if (cell.clients.length > MOST_CLIENTS) left.push(`${cell.clients.length - MOST_CLIENTS} more clients`);
  if (labels > MOST_LABELS) left.push(`${labels - MOST_LABELS} more labels`);
  return left.length ? ` Not drawn: ${left.join(" and ")}.` : "";
}

// Targets that are numbers have no labels to count: there are the sizes.
function sizesPicture(cell) {
  const rows = byDistribution(cell).slice(0, MOST_CLIENTS).map((place) => {
    const count = cell.data.train[place];
    return { name: cell.clients[place], value: count, text: count.toLocaleString("en") };
  });
  return element("div", {}, bars("Training samples of each client", rows), element("p", { class: "soft" }, `The targets are numbers: there are no labels to count.${notDrawn(cell)}`));
}

// Clients down, labels across; the area of a dot is the count.
function picture(cell) {
  const data = cell.data;
  if (!data.counts.length) return sizesPicture(cell);
  const shown = byDistribution(cell).slice(0, MOST_CLIENTS);
  const labels = data.labels.slice(0, MOST_LABELS);
  const counts = shown.map((place) => data.counts[place].slice(0, MOST_LABELS));
  const groups = data.distribution ? shown.map((place) => data.distribution[place]) : null;
  const most = Math.max(1, ...counts.map((row) => Math.max(...row)));
  const rowsAt = [];
  let height = TOP;
  shown.forEach((_, row) => {
    if (groups && row > 0 && groups[row] !== groups[row - 1]) height += GROUP_GAP;
    rowsAt.push(height + ROW / 2);
    height += ROW;
  });
  const svg = drawn("svg", {
    role: "img",
    "aria-label": "Samples of each label (column) that each client (row) has; the same is in a table",
  });
  svg.style.minWidth = `${Math.min(NAMES, 90) + LEAST_STEP * labels.length}px`;
  fitted(svg, height + 4, (width) => {
    const left = Math.min(NAMES * enlarged(), Math.max(NAMES_PART * width, 70));
    const step = Math.min(MOST_STEP, (width - left - 4) / labels.length);
    const largest = Math.min(step, ROW) / 2 - 1;
    const letters = Math.max(1, Math.floor(step / LETTER / enlarged()));
    const parts = [
      drawn("text", { x: left - 8, y: 34, "text-anchor": "end" }, "client"),
      drawn("text", { x: left, y: 13 }, "label"),
    ];
    labels.forEach((label, column) => {
      parts.push(drawn("text", { x: left + step * (column + 0.5), y: 34, "text-anchor": "middle" }, drawn("title", {}, label), shortened(label, letters)));
    });
    shown.forEach((place, row) => {
      const y = rowsAt[row];
      if (groups && (row === 0 || groups[row] !== groups[row - 1])) {
        const line = y - ROW / 2 - GROUP_GAP / 2;
        parts.push(drawn("line", { class: "grid", x1: 0, x2: left + step * labels.length, y1: line, y2: line }));
      }
      const name = shortened(cell.clients[place], Math.floor((left - 8) / LETTER / enlarged()));
      parts.push(drawn("text", { class: "name", x: left - 8, y: y + 4, "text-anchor": "end" }, name));
      counts[row].forEach((count, column) => {
        if (!count) return;
        const dot = drawn("circle", { cx: left + step * (column + 0.5), cy: y, r: Math.max(largest * Math.sqrt(count / most), 0.7), fill: "var(--better)" });
        dot.append(drawn("title", {}, `${cell.clients[place]}, ${labels[column]}: ${count}`));
        parts.push(dot);
      });
    });
    svg.replaceChildren(...parts);
  });
  const ordered = groups ? " Clients of one distribution stand together." : "";
  const note = `${ordered}${notDrawn(cell, data.labels.length)}`;
  const lines = shown.map((place, row) => [cell.clients[place], ...counts[row].map(String)]);
  return element("div", {},
    element("figure", { class: "card chart", tabindex: "0", "aria-label": "Who has what", "data-keep": "who has what" }, element("figcaption", {}, element("strong", {}, "Who has what"), ` The area is the number of training samples; the largest are ${most}.${note}`), svg),
    folded("Counts as a table", table("Training samples", ["client", ...labels], lines)));
}
