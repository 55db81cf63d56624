// Pictures. Colours never stand alone: lines differ in dashes, groups in shapes, bars in signs.
import { drawn, element } from "./elements.js";
import { address } from "./source.js";
import { axisText, shortened, valueText } from "./words.js";

// Okabe and Ito's palette, told apart with every kind of colour vision.
export const COLORS = ["#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#0072b2", "#8c8c8c"];
// For lines that stand for nothing that has a colour of its own: each is seen on light and on dark pages.
export const LINE_COLORS = ["var(--better)", "#d55e00", "#009e73", "#cc79a7", "#b07c00", "#8f7fd6", "var(--soft)", "#a6564c"];
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "4 2", "1 2", "12 4"];
const SHAPES = ["circle", "square", "triangle", "diamond", "cross"];
const FIRST_WIDTH = 640;
// A wide chart is a high one too, within these bounds.
const LEAST_HEIGHT = 280;
const MOST_HEIGHT = 460;
const HEIGHT_PART = 0.31;
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

// How much larger letters are than on a desk: a projector's are.
export function enlarged() {
  return parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;
}

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

// The last point of a line at this x or before it: of points at the same x the last one counts.
function lastUpTo(points, x) {
  let found = null;
  for (const point of points) {
    if (point[0] <= x) found = point;
  }
  return found;
}

// Drawn for the width that there is, and again whenever that changes: letters keep their size. A height that
// depends on the width, see style.css, is given as a function of it.
export function fitted(svg, height, paint) {
  let width = 0;
  const draw = (now) => {
    if (now === 0 || now === width) return;
    width = now;
    const high = typeof height === "function" ? height(width) : height;
    svg.setAttribute("viewBox", `0 0 ${width} ${high}`);
    paint(width, high);
  };
  if (typeof height === "number") svg.style.height = `${height}px`;
  draw(FIRST_WIDTH);
  new ResizeObserver(([entry]) => draw(Math.round(entry.contentRect.width))).observe(svg);
}

function heightOfChart(width) {
  return Math.round(Math.min(Math.max(HEIGHT_PART * width, LEAST_HEIGHT), MOST_HEIGHT));
}

// Lines over x: told on hover or with the arrow keys, zoomed by dragging or with + and -.
// Each line is {name, color, x, y}, with sd for a band of one standard deviation, dash for the number of its
// dashes where that is not its place, and mark for the number of a shape along it. What is spent counts from
// nothing: fromZero. `unit` and `xUnit` follow the numbers that are told.
export function lineChart(title, xName, yName, lines, { whole = true, fromZero = false, unit = "", xUnit = "" } = {}) {
  const known = lines
    .map((line, number) => ({ dash: number, ...line }))
    .filter((line) => line.y.some((y) => y !== null));
  const holder = element("figure", { class: "card chart" });
  holder.drawnFrom = JSON.stringify([title, xName, yName, lines, unit]);
  const banded = known.some((line) => line.sd?.some((sd) => sd));
  const band = banded ? "; the band is \u00b1 one standard deviation over seeds" : "";
  const heading = element("figcaption", {}, element("strong", {}, title), ` ${yName}${band}`);
  if (!known.length) {
    holder.append(heading, element("p", { class: "soft" }, "Nothing is known yet."));
    return holder;
  }
  const full = extent(known.flatMap((line) => line.x));
  const chart = identity(title);
  const told = element("p", { class: "told", "aria-live": "polite" }, "Point at a line, or use the arrow keys. Drag or press + to zoom.");
  const all = element("button", { type: "button", "data-keep": `all ${title}`, onclick: () => zoomTo(null) }, "Show all");
  const svg = drawn("svg", {
    class: "plot",
    role: "application",
    "aria-roledescription": "chart",
    "aria-label": `${title}: ${yName} over ${xName}`,
    tabindex: "0",
    "data-keep": `chart ${title}`,
  });
  const everything = known.map((line) => pointsOf(line, full));
  const everyX = known.flatMap((line) => line.x).filter((x) => x !== null);
  let shown = full;
  let marked = full[1];
  let noted = null;
  let width;
  let height;
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
    const up = (y) => height - EDGE.bottom - ((y - low) / (high - low)) * (height - EDGE.top - EDGE.bottom);

    const parts = axes(width, height, shown, [low, high], right, up, xName, whole);
    known.forEach((line, number) => {
      const color = line.color;
      if (line.sd) {
        const above = points[number].map(([x, y, sd]) => `${right(x).toFixed(1)},${up(y + sd).toFixed(1)}`);
        const below = points[number].map(([x, y, sd]) => `${right(x).toFixed(1)},${up(y - sd).toFixed(1)}`);
        parts.push(drawn("polygon", { class: "band", points: [...above, ...below.reverse()].join(" "), fill: color }));
      }
      const path = points[number].map(([x, y]) => `${right(x).toFixed(1)},${up(y).toFixed(1)}`).join(" ");
      parts.push(drawn("polyline", { class: "line", points: path, stroke: color, "stroke-dasharray": dashes(line.dash) }));
      parts.push(...marksOf(line, points[number], endsEarly(number)).map(([[x, y], kind]) => shape(kind, right(x), up(y), 4, { fill: color })));
    });
    if (noted !== null && noted >= shown[0] && noted <= shown[1]) {
      parts.push(drawn("line", { class: "noted", x1: right(noted), x2: right(noted), y1: EDGE.top, y2: height - EDGE.bottom }));
    }
    parts.push(drawn("line", { class: "mark", visibility: "hidden", y1: EDGE.top, y2: height - EDGE.bottom }));
    svg.replaceChildren(...parts);
    if (marks.has(chart)) tell(marks.get(chart));
  }

  // Such as a method that sends less than others: its line is over before theirs.
  function endsEarly(number) {
    const points = everything[number];
    return points.length > 0 && points.at(-1)[0] < full[1];
  }

  function tell(x) {
    marked = Math.min(Math.max(x, shown[0]), shown[1]);
    marks.set(chart, marked);
    const at = everyX[nearest(everyX, marked)];
    const mark = svg.querySelector(".mark");
    mark.setAttribute("visibility", "visible");
    mark.setAttribute("x1", right(at));
    mark.setAttribute("x2", right(at));
    const values = known.map((line, number) => {
      const point = lastUpTo(everything[number], at);
      if (!point) return `${line.name} -`;
      const end = point[0] < at && point === everything[number].at(-1) ? ` (ends at ${valueText(point[0], xUnit)})` : "";
      return `${line.name} ${valueText(point[1], unit)}${end}`;
    });
    const where = xUnit ? valueText(at, xUnit) : `${xName} ${valueText(at)}`;
    told.textContent = `${where}: ${values.join(", ")}`;
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
  fitted(svg, heightOfChart, (nowWide, nowHigh) => {
    width = nowWide;
    height = nowHigh;
    paint();
  });
  // Shows which x another part of the page is at, such as the round of a slider.
  holder.note = (x) => {
    noted = x;
    paint();
  };
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

// Where shapes stand on a line: at its end if it is over early or a single point, and, if it has a shape of
// its own, along it.
function marksOf(line, points, isOver) {
  if (!points.length) return [];
  const last = points.length - 1;
  const kind = line.mark ?? 0;
  const places = new Set(isOver || last === 0 ? [last] : []);
  if (line.mark !== undefined) {
    // Those of other lines stand elsewhere: lines may lie on each other.
    const shift = (0.09 * line.mark) % 0.25;
    for (const part of [0, 0.25, 0.5, 0.75]) places.add(Math.round((part + shift) * last));
  }
  return [...places].map((place) => [points[place], kind]);
}

function axes(width, height, across, [low, high], right, up, xName, whole) {
  const most = Math.max(2, Math.floor((width - EDGE.left - EDGE.right) / TICK_ROOM));
  const parts = [];
  for (const y of ticks(low, high)) {
    parts.push(drawn("line", { class: "grid", x1: EDGE.left, x2: width - EDGE.right, y1: up(y), y2: up(y) }));
    parts.push(drawn("text", { x: EDGE.left - 6, y: up(y) + 4, "text-anchor": "end" }, axisText(y)));
  }
  const places = ticks(across[0], across[1], Math.min(5, most)).filter((x) => !whole || Number.isInteger(x));
  // The first round is where it all begins, and no round number.
  if (whole && Number.isInteger(across[0]) && !places.includes(across[0])) {
    if (!places.length || right(places[0]) - right(across[0]) > TICK_ROOM / 2) places.unshift(across[0]);
  }
  for (const x of places) {
    parts.push(drawn("text", { x: right(x), y: height - EDGE.bottom + 20, "text-anchor": "middle" }, axisText(x)));
  }
  parts.push(drawn("text", { x: width - EDGE.right, y: height - 6, "text-anchor": "end" }, xName));
  return parts;
}

function dashes(number) {
  return DASHES[number % DASHES.length];
}

function key(lines) {
  const entries = lines.slice(0, MOST_IN_KEY).map((line) => {
    const sample = drawn("line", { x1: 0, x2: 32, y1: 5, y2: 5, stroke: line.color, "stroke-width": 3, "stroke-dasharray": dashes(line.dash) });
    const mark = line.mark === undefined ? null : shape(line.mark, 16, 5, 4, { fill: line.color });
    return element("li", {}, drawn("svg", { viewBox: "0 0 32 10", "aria-hidden": "true" }, sample, mark), line.name);
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
    const names = Math.min(BAR_NAMES * enlarged(), BAR_NAMES_PART * width);
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
    drawn("text", { class: "name", x: names, y: y + 14, "text-anchor": "end" }, shortened(row.name, Math.floor(names / BAR_LETTER / enlarged()))),
    drawn("rect", { x: better ? zero : zero - length, y: y + 3, width: Math.max(length, 1), height: 15, fill: better ? "var(--better)" : "var(--worse)" }),
    drawn("text", { x: better ? zero + length + 6 : zero - length - 6, y: y + 14, "text-anchor": better ? "start" : "end" }, row.text),
  ];
}

const RULER = 24;
const MARK = 5;
const DOT_STEP = 24;

// A row for each client: what it is alone, with FedAvg where that is known, and here, and what it gains. Each row
// is {name, alone, fedavg, used, gain, text} in the unit of the axis; gainName stands above the gains.
export function gainChart(title, yName, gainName, rows) {
  const height = DOT_STEP * rows.length + RULER + 26;
  const knowsFedavg = rows.some((row) => row.fedavg !== null);
  const [low, high] = extent(rows.flatMap((row) => [row.alone, row.fedavg, row.used]).filter((value) => value !== null));
  const svg = drawn("svg", { role: "img", "aria-label": `${title}; the same is in a table` });
  fitted(svg, height, (width) => {
    const names = Math.min(BAR_NAMES * enlarged(), BAR_NAMES_PART * width);
    const figures = 62;
    const left = names + 14;
    const right = (value) => left + MARK + ((value - low) / (high - low)) * (width - left - figures - 3 * MARK);
    const bottom = height - 26;
    const fitting = ticks(low, high, width < 500 ? 3 : 6).filter((value) => right(value) < width - 110);
    const parts = fitting.flatMap((value) => [
      drawn("line", { class: "grid", x1: right(value), x2: right(value), y1: RULER, y2: bottom }),
      drawn("text", { x: right(value), y: RULER - 8, "text-anchor": "middle" }, axisText(value)),
    ]);
    parts.push(drawn("text", { x: width, y: RULER - 8, "text-anchor": "end" }, gainName));
    parts.push(drawn("text", { x: width - figures, y: height - 6, "text-anchor": "end" }, yName));
    rows.forEach((row, place) => parts.push(...gainRow(row, RULER + DOT_STEP * (place + 0.5), names, right, width)));
    svg.replaceChildren(...parts);
  });
  const holder = element("figure", { class: "card chart" }, element("figcaption", {}, element("strong", {}, title)), gainKey(knowsFedavg), svg);
  holder.drawnFrom = JSON.stringify([title, yName, rows]);
  return holder;
}

function gainRow(row, y, names, right, width) {
  const color = row.gain >= 0 ? "var(--better)" : "var(--worse)";
  const about = [["alone", row.alone], ["FedAvg", row.fedavg], ["this run", row.used]];
  const said = about.filter(([, value]) => value !== null).map(([name, value]) => `${name} ${valueText(value)}`);
  const parts = [drawn("text", { class: "name", x: names, y: y + 4, "text-anchor": "end" }, shortened(row.name, Math.floor(names / BAR_LETTER / enlarged())))];
  if (row.alone !== null && row.used !== null) {
    parts.push(drawn("line", { x1: right(row.alone), x2: right(row.used), y1: y, y2: y, stroke: color, "stroke-width": 3 }));
  }
  if (row.alone !== null) parts.push(aloneMark(right(row.alone), y));
  if (row.fedavg !== null) parts.push(fedavgMark(right(row.fedavg), y));
  if (row.used !== null) parts.push(drawn("circle", { cx: right(row.used), cy: y, r: MARK, fill: color }));
  parts.push(drawn("text", { class: "name", x: width, y: y + 4, "text-anchor": "end" }, row.text));
  return [drawn("g", {}, drawn("title", {}, `${row.name}: ${said.join(", ")}; gain ${row.text}`), parts)];
}

function aloneMark(x, y) {
  return drawn("circle", { cx: x, cy: y, r: MARK - 0.5, fill: "var(--card)", stroke: "var(--ink)", "stroke-width": 1.5 });
}

function fedavgMark(x, y) {
  return shape(3, x, y, MARK, { fill: "#e69f00", stroke: "var(--ink)", "stroke-width": 0.7 });
}

function gainKey(knowsFedavg) {
  const entry = (mark, text) => element("li", {}, drawn("svg", { viewBox: "0 0 32 14", "aria-hidden": "true" }, mark), text);
  const used = [drawn("circle", { cx: 10, cy: 7, r: MARK, fill: "var(--better)" }), drawn("circle", { cx: 23, cy: 7, r: MARK, fill: "var(--worse)" })];
  return element("ul", { class: "key" },
    entry(aloneMark(16, 7), "alone"),
    knowsFedavg ? entry(fedavgMark(16, 7), "FedAvg") : null,
    entry(used, "this run, better or worse than alone"));
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
