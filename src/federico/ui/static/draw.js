// Elements and pictures. All text goes through textContent: a name that holds HTML stays text.

const SVG = "http://www.w3.org/2000/svg";
const DASHES = ["", "7 4", "2 3", "9 3 2 3", "4 2"];
// Okabe and Ito's palette; shapes and labels tell groups apart as well.
export const GROUPS = ["#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#0072b2", "#8c8c8c"];
const SHAPES = ["circle", "square", "triangle", "diamond"];

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  fill(made, attributes, children);
  return made;
}

export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  fill(made, attributes, children);
  return made;
}

function fill(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) made.append(child);
  }
}

export function table(title, headings, lines) {
  const head = element("tr", {}, headings.map((heading) => element("th", { scope: "col" }, heading)));
  const body = lines.map((line) => element("tr", {}, line.map((cell) => element("td", {}, cell))));
  const made = element("table", {}, element("caption", {}, title), element("thead", {}, head), element("tbody", {}, body));
  return element("div", { class: "card", tabindex: "0", role: "region", "aria-label": title }, made);
}

export function figureText(value, metric, signed = false) {
  if (value === null || value === undefined) return "-";
  const sign = signed && value > 0 ? "+" : "";
  const text = metric.percent ? (100 * value).toFixed(1) : Number(value.toPrecision(3)).toString();
  return (sign + text).replace("-", "\u2212");
}

export function unit(metric) {
  return metric.percent ? " %" : "";
}

export function bytesText(count) {
  for (const [size, name] of [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]]) {
    if (count >= size) return `${(count / size).toPrecision(3)} ${name}`;
  }
  return `${count} bytes`;
}

function range(values) {
  const known = values.filter((value) => value !== null && value !== undefined && Number.isFinite(value));
  if (!known.length) return [0, 1];
  const low = Math.min(...known);
  const high = Math.max(...known);
  return low === high ? [low - 0.5, high + 0.5] : [low, high];
}

function steps(low, high, count = 5) {
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= raw);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step / 1e6; value += step) {
    found.push(Number(value.toPrecision(6)));
  }
  return found;
}

// Lines over x, with a readout on hover or arrow keys, and zoom by dragging.
// lines: [{name, color, x, y, band}]
export function lineChart(title, xName, yName, lines) {
  const width = 640;
  const height = 300;
  const box = { left: 52, right: 12, top: 12, bottom: 40 };
  const holder = element("div", { class: "card" });
  const tip = element("p", { class: "tip", "aria-live": "polite" });
  const full = range(lines.flatMap((line) => line.x));
  let shown = full;

  function paint() {
    const inside = lines.map((line) => line.x.map((x, place) => [x, line.y[place]]).filter(([x]) => x >= shown[0] && x <= shown[1]));
    const [low, high] = range(inside.flat().map(([, y]) => y));
    const right = (x) => box.left + ((x - shown[0]) / (shown[1] - shown[0])) * (width - box.left - box.right);
    const up = (y) => height - box.bottom - ((y - low) / (high - low)) * (height - box.top - box.bottom);
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title, tabindex: "0" });
    for (const y of steps(low, high)) {
      svg.append(drawn("line", { class: "axis", x1: box.left, x2: width - box.right, y1: up(y), y2: up(y) }));
      svg.append(drawn("text", { x: box.left - 6, y: up(y) + 4, "text-anchor": "end" }, String(y)));
    }
    for (const x of steps(shown[0], shown[1])) {
      svg.append(drawn("text", { x: right(x), y: height - box.bottom + 16, "text-anchor": "middle" }, String(x)));
    }
    svg.append(drawn("text", { x: width - box.right, y: height - 4, "text-anchor": "end" }, xName));
    lines.forEach((line, number) => {
      const points = inside[number].filter(([, y]) => y !== null && y !== undefined).map(([x, y]) => `${right(x).toFixed(1)},${up(y).toFixed(1)}`);
      svg.append(drawn("polyline", { class: "line", points: points.join(" "), stroke: line.color, "stroke-dasharray": DASHES[number % DASHES.length] }));
    });
    const mark = drawn("line", { class: "axis", x1: -99, x2: -99, y1: box.top, y2: height - box.bottom });
    svg.append(mark);

    const atX = (event) => {
      const place = svg.getBoundingClientRect();
      const x = ((event.clientX - place.left) / place.width) * width;
      return shown[0] + ((x - box.left) / (width - box.left - box.right)) * (shown[1] - shown[0]);
    };
    const tell = (x) => {
      mark.setAttribute("x1", right(x));
      mark.setAttribute("x2", right(x));
      const parts = lines.map((line) => {
        let near = 0;
        line.x.forEach((each, place) => { if (Math.abs(each - x) < Math.abs(line.x[near] - x)) near = place; });
        const y = line.y[near];
        return `${line.name} ${y === null || y === undefined ? "-" : Number(y.toPrecision(4))}`;
      });
      tip.textContent = `${xName} ${Number(x.toPrecision(4))}: ${parts.join(", ")}`;
    };
    let start = null;
    let current = shown[1];
    svg.addEventListener("pointerdown", (event) => { start = atX(event); });
    svg.addEventListener("pointermove", (event) => tell(atX(event)));
    svg.addEventListener("pointerup", (event) => {
      const end = atX(event);
      if (start !== null && Math.abs(end - start) > (shown[1] - shown[0]) / 40) {
        shown = [Math.min(start, end), Math.max(start, end)];
        paint();
      }
      start = null;
    });
    svg.addEventListener("keydown", (event) => {
      const step = (shown[1] - shown[0]) / 30;
      if (event.key === "ArrowRight") current = Math.min(current + step, shown[1]);
      else if (event.key === "ArrowLeft") current = Math.max(current - step, shown[0]);
      else return;
      event.preventDefault();
      tell(current);
    });
    const whole = element("button", { type: "button", onclick: () => { shown = full; paint(); } }, "Show all");
    whole.hidden = shown === full;
    holder.replaceChildren(element("h3", {}, title), element("p", { class: "soft" }, `${yName}. Drag to zoom.`), svg, key(lines), tip, whole);
  }
  paint();
  return holder;
}

function key(lines) {
  return element("ul", { class: "key" }, lines.map((line, number) => element("li", {},
    drawn("svg", { viewBox: "0 0 32 10", "aria-hidden": "true" }, drawn("line", { x1: 0, x2: 32, y1: 5, y2: 5, stroke: line.color, "stroke-width": 3, "stroke-dasharray": DASHES[number % DASHES.length] })),
    line.name)));
}

export function spark(values) {
  const known = values.filter((value) => value !== null);
  const [low, high] = range(known);
  const points = known.map((y, x) => `${(100 * x) / Math.max(known.length - 1, 1)},${28 - (26 * (y - low)) / (high - low)}`);
  return drawn("svg", { class: "spark", viewBox: "0 0 100 30", preserveAspectRatio: "none", "aria-hidden": "true" },
    drawn("polyline", { class: "line", points: points.join(" "), stroke: "var(--better)" }));
}

// Bars to both sides of zero, sorted as given. rows: [{name, value, text}]
export function gainBars(title, rows) {
  const height = 22 * rows.length + 10;
  const widest = Math.max(...rows.map((row) => Math.abs(row.value ?? 0)), 1e-9);
  const svg = drawn("svg", { viewBox: `0 0 640 ${height}`, role: "img", "aria-label": title });
  rows.forEach((row, place) => {
    const y = 5 + 22 * place;
    const size = (200 * Math.abs(row.value ?? 0)) / widest;
    const better = (row.value ?? 0) >= 0;
    svg.append(drawn("text", { class: "name", x: 150, y: y + 14, "text-anchor": "end" }, row.name.length > 20 ? `${row.name.slice(0, 19)}\u2026` : row.name));
    svg.append(drawn("rect", { x: better ? 360 : 360 - size, y: y + 3, width: Math.max(size, 1), height: 15, fill: better ? "var(--better)" : "var(--worse)" }));
    svg.append(drawn("text", { x: better ? 366 + size : 354 - size, y: y + 14, "text-anchor": better ? "start" : "end" }, row.text));
  });
  svg.append(drawn("line", { class: "axis", x1: 360, x2: 360, y1: 0, y2: height }));
  return element("div", { class: "card" }, element("h3", {}, title), svg);
}

export function shape(group, x, y, size, attributes) {
  const kind = SHAPES[group % SHAPES.length];
  if (kind === "circle") return drawn("circle", { cx: x, cy: y, r: size, ...attributes });
  if (kind === "square") return drawn("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...attributes });
  const corners = kind === "triangle" ? [[0, -1.2], [1.2, 1], [-1.2, 1]] : [[0, -1.35], [1.35, 0], [0, 1.35], [-1.35, 0]];
  return drawn("polygon", { points: corners.map(([dx, dy]) => `${x + dx * size},${y + dy * size}`).join(" "), ...attributes });
}
