// Pictures. Colours never stand alone: lines differ in dashes, groups in shapes, bars in signs.
import { drawn, element } from "./elements.js";
import { address } from "./source.js";
import { shortened } from "./words.js";

// Okabe and Ito's palette, told apart with every kind of colour vision.
export const COLORS = ["#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#0072b2", "#8c8c8c"];
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "4 2", "1 2", "12 4"];
const SHAPES = ["circle", "square", "triangle", "diamond", "cross"];
const FIRST_WIDTH = 640;
const HEIGHT = 300;
const EDGE = { left: 56, right: 14, top: 12, bottom: 42 };
const BAR_STEP = 22;
const BAR_NAMES = 140;
// On a phone names have this part of the width, and a letter this part of that.
const BAR_NAMES_PART = 0.28;
const BAR_LETTER = 7.5;
const BAR_FIGURES = 70;
const MOST_IN_KEY = 16;
// A number below the axis with the gap to the next one.
const TICK_ROOM = 60;
// What a person has zoomed into and points at, by chart: it stays while new rounds arrive.
const zooms = new Map();
const marks = new Map();

function extent(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  if (low > high) return [0, 1];
  if (low < high) return [low, high];
  // A single value is drawn in the middle; nothing at all stands on the floor.
  if (low === 0) return [0, 1];
  const around = Math.abs(low) / 10;
  return [low - around, low + around];
}

// Which chart it is: one of the same name in another run, or of another cell, is another one.
function identity(title) {
  const { view, given } = address();
  return [view, ...given.getAll("run"), given.get("cell"), title].join("\n");
}

// Round numbers from low to high.
function ticks(low, high, count = 5) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw * 0.999);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) {
    found.push(Number(value.toPrecision(6)));
  }
  return found;
}

function nearest(values, wanted) {
  let best = 0;
  values.forEach((value, place) => {
    if (Math.abs(value - wanted) < Math.abs(values[best] - wanted)) best = place;
  });
  return best;
}

// Drawn for the width that there is, and again whenever that changes: letters keep their size.
function fitted(svg, height, paint) {
  let width = 0;
  const draw = (now) => {
    if (now === 0 || now === width) return;
    width = now;
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    paint(width);
  };
  svg.style.height = `${height}px`;
  draw(FIRST_WIDTH);
  new ResizeObserver(([entry]) => draw(Math.round(entry.contentRect.width))).observe(svg);
}

// Lines over x: told on hover or with the arrow keys, zoomed by dragging or with + and -.
// Each line is {name, color, x, y}, with sd for a band of one standard deviation. What is spent counts from
// nothing: fromZero.
export function lineChart(title, xName, yName, lines, { whole = true, fromZero = false } = {}) {
  const known = lines.filter((line) => line.y.some((y) => y !== null));
  const holder = element("figure", { class: "card chart" });
  holder.drawnFrom = JSON.stringify([title, xName, yName, lines]);
  const heading = element("figcaption", {}, element("strong", {}, title), ` ${yName}`);
  if (!known.length) {
    holder.append(heading, element("p", { class: "soft" }, "Nothing is known yet."));
    return holder;
  }
  const full = extent(known.flatMap((line) => line.x));
  const chart = identity(title);
  const told = element("p", { class: "told", "aria-live": "polite" }, "Point at a line, or use the arrow keys. Drag or press + to zoom.");
  const all = element("button", { type: "button", "data-keep": `all ${title}`, onclick: () => zoomTo(null) }, "Show all");
  const svg = drawn("svg", {
    role: "application",
    "aria-roledescription": "chart",
    "aria-label": `${title}: ${yName} over ${xName}`,
    tabindex: "0",
    "data-keep": `chart ${title}`,
  });
  let shown = full;
  let marked = full[1];
  let width;
  let right;

  function zoomTo(range) {
    if (range === null) zooms.delete(chart);
    else zooms.set(chart, range);
    paint();
  }

  function paint() {
    shown = zooms.get(chart) || full;
    all.hidden = !zooms.has(chart);
    const points = known.map((line) => pointsOf(line, shown));
    const values = points.flat().flatMap(([, y, sd]) => [y - sd, y + sd]);
    const [low, high] = extent(fromZero ? [0, ...values] : values);
    right = (x) => EDGE.left + ((x - shown[0]) / (shown[1] - shown[0])) * (width - EDGE.left - EDGE.right);
    const up = (y) => HEIGHT - EDGE.bottom - ((y - low) / (high - low)) * (HEIGHT - EDGE.top - EDGE.bottom);

    const parts = axes(width, shown, [low, high], right, up, xName, whole);
    known.forEach((line, number) => {
      const color = line.color;
      if (line.sd) {
        const above = points[number].map(([x, y, sd]) => `${right(x).toFixed(1)},${up(y + sd).toFixed(1)}`);
        const below = points[number].map(([x, y, sd]) => `${right(x).toFixed(1)},${up(y - sd).toFixed(1)}`);
        parts.push(drawn("polygon", { class: "band", points: [...above, ...below.reverse()].join(" "), fill: color }));
      }
      const path = points[number].map(([x, y]) => `${right(x).toFixed(1)},${up(y).toFixed(1)}`).join(" ");
      parts.push(drawn("polyline", { class: "line", points: path, stroke: color, "stroke-dasharray": dashes(number) }));
      if (points[number].length === 1) {
        const [x, y] = points[number][0];
        parts.push(drawn("circle", { cx: right(x), cy: up(y), r: 4, fill: color }));
      }
    });
    parts.push(drawn("line", { class: "mark", visibility: "hidden", y1: EDGE.top, y2: HEIGHT - EDGE.bottom }));
    svg.replaceChildren(...parts);
    if (marks.has(chart)) tell(marks.get(chart));
  }

  function tell(x) {
    marked = Math.min(Math.max(x, shown[0]), shown[1]);
    marks.set(chart, marked);
    const place = nearest(known[0].x, marked);
    const at = known[0].x[place];
    const mark = svg.querySelector(".mark");
    mark.setAttribute("visibility", "visible");
    mark.setAttribute("x1", right(at));
    mark.setAttribute("x2", right(at));
    const values = known.map((line) => {
      const y = line.y[nearest(line.x, at)];
      return `${line.name} ${y === null ? "-" : Number(y.toPrecision(4))}`;
    });
    told.textContent = `${xName} ${Number(at.toPrecision(4))}: ${values.join(", ")}`;
  }

  const pointed = (event) => {
    const box = svg.getBoundingClientRect();
    const inside = width - EDGE.left - EDGE.right;
    return shown[0] + ((event.clientX - box.left - EDGE.left) / inside) * (shown[1] - shown[0]);
  };
  let start = null;
  svg.addEventListener("pointerdown", (event) => { start = pointed(event); });
  svg.addEventListener("pointermove", (event) => tell(pointed(event)));
  svg.addEventListener("pointerup", (event) => {
    const end = pointed(event);
    const wide = start !== null && Math.abs(end - start) > (shown[1] - shown[0]) / 40;
    if (wide) zoomTo([Math.min(start, end), Math.max(start, end)]);
    start = null;
  });
  svg.addEventListener("keydown", (event) => {
    const span = shown[1] - shown[0];
    if (event.key === "ArrowRight") tell(marked + span / 30);
    else if (event.key === "ArrowLeft") tell(marked - span / 30);
    else if (event.key === "+") zoomTo([Math.max(full[0], marked - span / 4), Math.min(full[1], marked + span / 4)]);
    else if (event.key === "-") zoomTo(null);
    else return;
    event.preventDefault();
  });
  fitted(svg, HEIGHT, (now) => {
    width = now;
    paint();
  });
  holder.append(heading, svg, key(known), told, all);
  return holder;
}

function pointsOf(line, [from, to]) {
  const found = [];
  line.x.forEach((x, place) => {
    const y = line.y[place];
    if (y === null || y === undefined || x === null || x < from || x > to) return;
    found.push([x, y, line.sd ? line.sd[place] || 0 : 0]);
  });
  return found;
}

function axes(width, across, [low, high], right, up, xName, whole) {
  const most = Math.max(2, Math.floor((width - EDGE.left - EDGE.right) / TICK_ROOM));
  const parts = [];
  for (const y of ticks(low, high)) {
    parts.push(drawn("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: up(y), y2: up(y) }));
    parts.push(drawn("text", { x: EDGE.left - 6, y: up(y) + 4, "text-anchor": "end" }, String(y)));
  }
  for (const x of ticks(across[0], across[1], Math.min(5, most))) {
    if (whole && !Number.isInteger(x)) continue;
    parts.push(drawn("text", { x: right(x), y: HEIGHT - EDGE.bottom + 20, "text-anchor": "middle" }, String(x)));
  }
  parts.push(drawn("text", { x: width - EDGE.right, y: HEIGHT - 6, "text-anchor": "end" }, xName));
  return parts;
}

function dashes(number) {
  return DASHES[number % DASHES.length];
}

function key(lines) {
  const entries = lines.slice(0, MOST_IN_KEY).map((line, number) => {
    const sample = drawn("line", { x1: 0, x2: 32, y1: 5, y2: 5, stroke: line.color, "stroke-width": 3, "stroke-dasharray": dashes(number) });
    return element("li", {}, drawn("svg", { viewBox: "0 0 32 10", "aria-hidden": "true" }, sample), line.name);
  });
  if (lines.length > MOST_IN_KEY) entries.push(element("li", {}, `and ${lines.length - MOST_IN_KEY} more`));
  return element("ul", { class: "key" }, entries);
}

export function spark(values) {
  const known = values.filter((value) => value !== null);
  const [low, high] = extent(known);
  const last = Math.max(known.length - 1, 1);
  const points = known.map((y, place) => `${(100 * place) / last},${28 - (26 * (y - low)) / (high - low)}`);
  return drawn("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" },
    drawn("polyline", { class: "line", points: points.join(" "), stroke: "var(--better)" }));
}

// Bars to both sides of zero, in the order given. Each row is {name, value, text}.
export function bars(title, rows) {
  const height = BAR_STEP * rows.length + 10;
  const largest = Math.max(...rows.map((row) => Math.abs(row.value ?? 0)), 1e-9);
  const signed = rows.some((row) => row.value < 0);
  const svg = drawn("svg", { role: "img", "aria-label": `${title}; the same is in a table` });
  fitted(svg, height, (width) => {
    const names = Math.min(BAR_NAMES, BAR_NAMES_PART * width);
    const figures = Math.min(BAR_FIGURES, names * 0.6);
    const free = width - names - figures - 10;
    const room = signed ? (free - figures) / 2 : free;
    const zero = signed ? names + 10 + figures + room : names + 10;
    const drawnRows = rows.map((row, place) => bar(row, 5 + BAR_STEP * place, names, zero, room / largest));
    svg.replaceChildren(...drawnRows.flat(), drawn("line", { class: "grid", x1: zero, x2: zero, y1: 0, y2: height }));
  });
  const holder = element("figure", { class: "card chart" }, element("figcaption", {}, element("strong", {}, title)), svg);
  holder.drawnFrom = JSON.stringify([title, rows]);
  return holder;
}

function bar(row, y, names, zero, scale) {
  const value = row.value ?? 0;
  const length = scale * Math.abs(value);
  const better = value >= 0;
  return [
    drawn("text", { class: "name", x: names, y: y + 14, "text-anchor": "end" }, shortened(row.name, Math.floor(names / BAR_LETTER))),
    drawn("rect", { x: better ? zero : zero - length, y: y + 3, width: Math.max(length, 1), height: 15, fill: better ? "var(--better)" : "var(--worse)" }),
    drawn("text", { x: better ? zero + length + 6 : zero - length - 6, y: y + 14, "text-anchor": better ? "start" : "end" }, row.text),
  ];
}

export function colorOf(group) {
  return COLORS[group % COLORS.length];
}

// The shape of a group: with the colours there are forty that differ.
export function shape(group, x, y, size, attributes) {
  const kind = SHAPES[group % SHAPES.length];
  if (kind === "circle") return drawn("circle", { cx: x, cy: y, r: size, ...attributes });
  const corners = {
    square: [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
    triangle: [[0, -1.2], [1.2, 1], [-1.2, 1]],
    diamond: [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]],
    cross: [[-0.4, -1.2], [0.4, -1.2], [0.4, -0.4], [1.2, -0.4], [1.2, 0.4], [0.4, 0.4], [0.4, 1.2], [-0.4, 1.2], [-0.4, 0.4], [-1.2, 0.4], [-1.2, -0.4], [-0.4, -0.4]],
  };
  const points = corners[kind].map(([dx, dy]) => `${x + dx * size},${y + dy * size}`);
  return drawn("polygon", { points: points.join(" "), ...attributes });
}
