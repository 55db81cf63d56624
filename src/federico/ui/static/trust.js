// Who learns with whom? The graph and the weights side by side, over the rounds, and each client.
import { colorOf, shape } from "./charts.js";
import { aboutClient } from "./client.js";
import { choice, drawn, element, folded, paragraphs, table } from "./elements.js";
import { chosenCell, fromBase64, goToCell, load, NotReachedError, remember } from "./source.js";
import { called, countText, listed, percentText, shortened } from "./words.js";
import { cellOptions } from "./worth.js";

const SIZE = 520;
const MIDDLE = SIZE / 2;
const RADIUS = 200;
// More names than this around the graph could not be read. From here on they stand on end.
const MOST_LABELLED = 64;
const MOST_UPRIGHT = 16;
// On a phone only so many have room.
const MOST_ON_A_PHONE = 32;
const MOST_GROUPS_LABELLED = 24;
// How far a line is bowed, in parts of its length, and its head, for a node of full size.
const BOW = 0.14;
const HEAD = 9;
const FULL_SIZE = 15;
// What a finger can hit around a node, where there is room for it.
const HIT = 27;
const MOST_SAID = 4;
const LEAST_SAID = 0.01;
const MOST_LISTED = 400;
const MOST_IN_TABLE = 64;
const PLAY_EVERY = 250;
const MOST_NAMES = 40;
const MOST_LINES = 1000;
const LINE = 16;
// The width of a letter on a phone, where they are the largest.
const LETTER = 11;
// Letters of all columns' names that have room side by side, on a phone too; with more, names are turned.
const MOST_SIDE_BY_SIDE = 32;
const TABLE_AFTER = 150;
// From no weight to all of it, on a light and on a dark page.
const SHADES = { light: [[240, 244, 248], [0, 48, 92]], dark: [[35, 42, 51], [160, 220, 255]] };

export async function showTrust(name, given) {
  const run = await load("run", name);
  const { wanted, cell } = await chosenCell(run, given);
  const head = [
    element("h1", {}, "Who learns with whom?"),
    element("p", { class: "soft" }, `${cell.name}, seed ${cell.seed}. ${run.trust}`),
    element("div", { class: "controls" }, choice("Method and seed", cellOptions(run), wanted, goToCell)),
  ];
  if (!cell.trust) {
    return [...head, element("p", { class: "note" }, "This method has no weights over clients' models. Choose FedeRiCo above.")];
  }
  const view = new TrustView(run.name, wanted, cell, given);
  return [...head, ...(await view.parts())];
}

class TrustView {
  constructor(run, wanted, cell, given) {
    this.run = run;
    this.wanted = wanted;
    this.cell = cell;
    this.trust = cell.trust;
    this.nodes = nodesOf(cell);
    this.order = this.trust.by_group ? this.nodes.map((_, place) => place) : this.trust.order;
    this.weights = fromBase64(this.trust.weights);
    this.last = this.trust.rounds.length - 1;
    this.place = given.has("round") ? nearestPlace(this.trust.rounds, Number(given.get("round"))) : this.last;
    this.threshold = Number(given.get("threshold") || 0.1);
    this.client = given.get("client");
    this.group = given.has("group") ? this.nodes.findIndex((node) => String(node.group) === given.get("group")) : null;
    this.playing = null;
    this.found = null;
    this.note = null;
    this.positions = this.nodes.map((_, number) => this.position(this.order.indexOf(number)));
  }

  weight(from, to) {
    const count = this.nodes.length;
    return this.weights[(this.place * count + from) * count + to] / 255;
  }

  async parts() {
    // How much weight stays in each group: no line can show that.
    this.inside = this.nodes.map(() => document.createTextNode(""));
    this.edges = drawn("g", { "aria-hidden": "true" });
    this.sizes = [];
    this.shapes = this.nodes.map((_, number) => this.node(number));
    this.about = element("section", { id: "about", "aria-label": "What was chosen" });
    // As wide as the longest of its texts: the slider beside it stays as it is.
    const longest = this.saying(this.last).length;
    this.said = element("output", { for: "round", class: "steady" });
    this.said.style.minWidth = `${longest}ch`;
    this.sentence = element("p", { class: "chosen", id: "chosen", "aria-live": "polite" });
    this.told = element("p", { class: "told", "aria-live": "polite" });
    this.drawnLines = element("p", { class: "told" });
    this.heat = element("canvas", { width: this.nodes.length, height: this.nodes.length, role: "img", "aria-label": "Weights: a row for who trusts, a column for whose model; the same is in a table below" });
    this.table = this.asTable();
    this.followHeat();
    this.paint();
    if (this.client !== null) await this.choose(this.client);
    else if (this.nodes[this.group]) this.chooseGroup(this.group);
    return [
      this.controls(),
      this.key(),
      this.sentence,
      element("div", { class: "beside" },
        element("figure", { class: "card" }, element("figcaption", {}, element("strong", {}, "Graph"), this.trust.by_group ? ` Beside a node: its number, how many clients it has, and how much of their weight stays inside. An arrow leads to the ${this.trust.group_word} whose models are trusted.` : " An arrow leads to the model that is trusted; thicker is more."), this.graph(), this.drawnLines),
        element("figure", { class: "card" }, element("figcaption", {}, element("strong", {}, "Weights"), " Row: who trusts. Column: whose model."), this.namedHeat(), scale(), this.told)),
      ...paragraphs([this.notRecorded()], "soft"),
      this.about,
      this.table,
    ];
  }

  // Of many clients the records hold only the largest weights.
  notRecorded() {
    const kept = this.trust.weights_kept;
    if (kept >= this.cell.clients.length) return "";
    return `With so many clients the records hold the ${countText(kept, "largest weight")} of each client; what is missing to 100 % is spread over the others.`;
  }

  // Rows and columns have their names where there is room for them.
  namedHeat() {
    if (this.nodes.length > MOST_NAMES) return this.heat;
    const nameOf = (node) => (this.trust.by_group ? node.label : shortened(node.name, 8));
    const areShort = this.nodes.length * Math.max(...this.nodes.map((node) => nameOf(node).length)) <= MOST_SIDE_BY_SIDE;
    const names = () => this.order.map((node) => element("span", {}, nameOf(this.nodes[node])));
    return element("div", { class: "heat" },
      element("div", { class: areShort ? "columns short" : "columns", "aria-hidden": "true" }, names()),
      element("div", { class: "rows", "aria-hidden": "true" }, names()),
      this.heat);
  }

  controls() {
    this.slider = element("input", {
      type: "range", id: "round", min: 0, max: this.last, value: this.place, "aria-label": "Round", "data-keep": "round",
      oninput: (event) => this.goTo(Number(event.target.value)),
    });
    const threshold = element("input", {
      type: "range", min: 0.01, max: 0.6, step: 0.01, value: this.threshold, "data-keep": "threshold",
      oninput: (event) => {
        this.threshold = Number(event.target.value);
        remember("threshold", this.threshold);
        this.paint();
      },
    });
    this.least = element("output", { class: "steady" });
    this.least.style.minWidth = "5ch";
    this.button = element("button", { type: "button", "data-keep": "play", onclick: () => (this.playing ? this.stop() : this.play()) }, "Play");
    this.say();
    return element("div", { class: "controls" }, this.button, this.slider, this.said, element("label", {}, "Lines from ", threshold), this.least);
  }

  // At the last round the address names none, so that the page follows a run that goes on.
  goTo(place) {
    this.place = place;
    remember("round", place === this.last ? null : this.trust.rounds[place]);
    this.paint();
  }

  play() {
    if (this.place === this.last) this.place = 0;
    this.button.textContent = "Stop";
    this.playing = setInterval(() => {
      if (!this.slider.isConnected || this.place >= this.last) {
        this.stop();
        return;
      }
      this.goTo(this.place + 1);
      this.slider.value = this.place;
    }, PLAY_EVERY);
    document.documentElement.dataset.playing = "yes";
  }

  stop() {
    clearInterval(this.playing);
    this.playing = null;
    this.button.textContent = "Play";
    delete document.documentElement.dataset.playing;
  }

  say() {
    this.said.textContent = this.saying(this.place);
    if (this.least) this.least.textContent = percentText(this.threshold);
  }

  saying(place) {
    return `round ${this.trust.rounds[place]} of ${this.trust.rounds[this.last]}`;
  }

  angle(place) {
    return (2 * Math.PI * place) / this.nodes.length - Math.PI / 2;
  }

  position(place, radius = RADIUS) {
    const angle = this.angle(place);
    return [MIDDLE + radius * Math.cos(angle), MIDDLE + radius * Math.sin(angle)];
  }

  node(number) {
    const { name, group, size } = this.nodes[number];
    this.sizes[number] = this.trust.by_group ? 6 + 14 * Math.sqrt(size / this.cell.clients.length) : nodeSize(this.nodes.length);
    const [x, y] = this.positions[number];
    const choose = () => (this.trust.by_group ? this.chooseGroup(number) : this.choose(name));
    const hit = Math.min(HIT, (Math.PI * RADIUS) / this.nodes.length);
    const seen = shape(group, x, y, this.sizes[number], { fill: colorOf(group) });
    const around = drawn("circle", { class: "hit", cx: x, cy: y, r: Math.max(hit, this.sizes[number]) });
    const made = drawn("g", {
      class: "node",
      tabindex: "0",
      role: "button",
      "aria-pressed": "false",
      "aria-label": this.trust.by_group ? `${name}, ${countText(size, "client")}` : `${name}, ${this.trust.group_word} ${group}`,
      "data-keep": `node ${name}`,
      onclick: choose,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose();
      },
    });
    made.append(around, seen);
    return made;
  }

  graph() {
    const isGroup = this.trust.by_group;
    const most = isGroup ? MOST_GROUPS_LABELLED : MOST_LABELLED;
    const areUpright = isGroup || this.nodes.length <= MOST_UPRIGHT;
    const labels = this.nodes.length > most ? [] : this.nodes.map((each, number) => {
      if (!areUpright) return this.labelOnEnd(each, this.order.indexOf(number));
      const [x, y] = this.position(this.order.indexOf(number), isGroup ? RADIUS + 36 : RADIUS + 28);
      // The two lines of a group stand above a node at the top.
      const up = isGroup && y < MIDDLE - RADIUS / 2 ? LINE : 0;
      const side = x > MIDDLE + 40 ? "start" : x < MIDDLE - 40 ? "end" : "middle";
      return drawn("text", { class: "name", x, y: y + 5 - up, "text-anchor": side, "aria-hidden": "true" },
        each.label, drawn("tspan", { x, dy: "1.2em" }, this.inside[number]));
    });
    // As much room around as the longest name takes: the graph has the rest.
    const longest = Math.max(...this.nodes.map((each) => each.label.length));
    const side = isGroup ? 100 : Math.min(110, 34 + LETTER * longest);
    const above = areUpright ? 50 : side - 10;
    return drawn("svg", { class: this.nodes.length > MOST_ON_A_PHONE ? "graph crowded" : "graph", viewBox: `-${side} -${above} ${SIZE + 2 * side} ${SIZE + 2 * above}`, role: "group", "aria-label": "Collaboration graph" }, this.edges, this.shapes, labels);
  }

  // A name that points away from the middle, and is never upside down.
  labelOnEnd(node, place) {
    const [x, y] = this.position(place, RADIUS + nodeSize(this.nodes.length) + 8);
    const isLeft = x < MIDDLE;
    const degrees = (180 * this.angle(place)) / Math.PI + (isLeft ? 180 : 0);
    return drawn("text", { class: "name", x, y: y + 5, "text-anchor": isLeft ? "end" : "start", transform: `rotate(${degrees.toFixed(2)} ${x} ${y})`, "aria-hidden": "true" }, node.label);
  }

  paint() {
    const count = this.nodes.length;
    const context = this.heat.getContext("2d");
    const pixels = context.createImageData(count, count);
    const lines = [];
    const shades = allShades();
    this.order.forEach((from, row) => this.order.forEach((to, column) => {
      const value = this.weights[(this.place * count + from) * count + to];
      pixels.data.set(shades[value], 4 * (row * count + column));
      if (from !== to && value >= 255 * this.threshold) lines.push([from, to, value / 255]);
    }));
    context.putImageData(pixels, 0, 0);
    lines.sort((one, other) => other[2] - one[2]);
    this.edges.replaceChildren(...lines.slice(0, MOST_LINES).map(([from, to, value]) => this.line(from, to, value)));
    this.drawnLines.textContent = this.aboutLines(lines.length);
    if (this.trust.by_group) this.inside.forEach((text, node) => { text.data = `${percentText(this.weight(node, node))} inside`; });
    this.shapes.forEach((node, number) => node.setAttribute("aria-pressed", String(this.isChosen(number))));
    this.say();
    this.sayChosen();
    if (this.note) this.note(this.trust.rounds[this.place]);
    this.tell();
    this.fillTableSoon();
  }

  // The client that is read about, or the group that it is in.
  isChosen(number) {
    if (!this.trust.by_group) return this.nodes[number].name === this.client;
    if (this.client === null) return number === this.group;
    return number === this.trust.nodes[this.cell.clients.indexOf(this.client)];
  }

  aboutLines(count) {
    if (count > MOST_LINES) return `The heaviest ${MOST_LINES.toLocaleString("en")} of ${count.toLocaleString("en")} lines are drawn.`;
    if (count) return "";
    return `No line: nobody gives another ${this.trust.by_group ? this.trust.group_word : "client"} ${percentText(this.threshold)} or more in this round.`;
  }

  line(from, to, value) {
    const d = arrow(this.positions[from], this.positions[to], this.sizes[to], 0.5 + 6 * value);
    return drawn("path", { d, class: "edge", fill: colorOf(this.nodes[to].group) });
  }

  // What was chosen, in the round that is shown: it stands where the graph is in sight.
  sayChosen() {
    const round = this.trust.rounds[this.place];
    let text = this.trust.by_group ? `Choose a ${this.trust.group_word} in the graph, then one of its clients.` : "Choose a client in the graph to read whom it trusts, and below why.";
    if (this.client !== null && this.found) text = `In round ${round}, ${called(this.client)} ${this.trustsInWords(round)}.`;
    else if (this.client === null && this.nodes[this.group]) text = `${this.nodes[this.group].name} is chosen: its clients are listed below the graph.`;
    if (this.sentence.textContent !== text) this.sentence.textContent = text;
  }

  trustsInWords(round) {
    const place = nearestPlace(this.found.rounds, round);
    const weights = this.found.series.map((series) => [series.owner, (series.weights[place] ?? 0) / 100]);
    const own = weights.find(([owner]) => owner === this.client);
    const others = weights.filter(([owner, weight]) => owner !== this.client && weight >= LEAST_SAID);
    others.sort((one, other) => other[1] - one[1]);
    const kept = `${percentText(own ? own[1] : 0)} for its own model`;
    if (!others.length) return `trusts nobody else: it keeps ${kept}`;
    return `trusts ${listed(others.map(([owner, weight]) => `${owner} (${percentText(weight)})`), MOST_SAID)} and keeps ${kept}`;
  }

  // What the square says that was pointed at last, in the round that is shown.
  tell() {
    const { from, to } = pointedAt;
    if (!this.nodes[from] || !this.nodes[to]) {
      this.told.textContent = "Point at a square to read it.";
      return;
    }
    const owner = from === to ? `${this.nodes[to].name} itself` : this.nodes[to].name;
    this.told.textContent = `${this.nodes[from].name} gives ${owner} ${percentText(this.weight(from, to))} of its weight`;
  }

  followHeat() {
    const at = (event) => {
      const box = this.heat.getBoundingClientRect();
      const count = this.nodes.length;
      const from = this.order[Math.floor(((event.clientY - box.top) / box.height) * count)];
      const to = this.order[Math.floor(((event.clientX - box.left) / box.width) * count)];
      return [from, to];
    };
    this.heat.addEventListener("pointermove", (event) => {
      const [from, to] = at(event);
      if (from === undefined || to === undefined) return;
      pointedAt = { from, to };
      this.tell();
    });
    this.heat.addEventListener("click", (event) => {
      const [from] = at(event);
      if (from === undefined) return;
      if (this.trust.by_group) this.chooseGroup(from);
      else this.choose(this.nodes[from].name);
    });
  }

  chooseGroup(number) {
    this.client = null;
    remember("client", null);
    this.found = null;
    this.note = null;
    this.group = number;
    remember("group", this.nodes[number].group);
    const members = this.cell.clients.filter((_, place) => this.trust.nodes[place] === number);
    const buttons = members.slice(0, MOST_LISTED).map((client) => element("button", { class: "linklike", type: "button", onclick: () => this.choose(client) }, client));
    this.about.replaceChildren(
      element("h2", {}, `${this.nodes[number].name}: ${countText(members.length, "client")}`),
      element("p", { class: "members" }, buttons),
      ...paragraphs([members.length > MOST_LISTED ? `${members.length - MOST_LISTED} more are not listed.` : ""]));
    this.paint();
  }

  async choose(client) {
    this.client = client;
    remember("client", client);
    remember("group", null);
    this.note = null;
    this.found = null;
    try {
      const found = await load("client", this.run, this.wanted, client);
      // Another one was chosen meanwhile.
      if (this.client !== client) return;
      const { parts, note } = aboutClient(found);
      this.about.replaceChildren(...parts.filter(Boolean));
      this.found = found;
      this.note = note;
    } catch (error) {
      // Not in sight yet: what was shown before this view stays.
      if (error instanceof NotReachedError && !this.about.isConnected) throw error;
      this.about.replaceChildren(element("p", { class: "note" }, error.message));
    }
    this.paint();
  }

  key() {
    const groups = [...new Set(this.trust.groups)].sort((one, other) => one - other);
    const entries = groups.slice(0, 12).map((group) => {
      const sample = shape(group, 16, 7, 5, { fill: colorOf(group) });
      return element("li", {}, drawn("svg", { viewBox: "0 0 32 14", "aria-hidden": "true" }, sample), `${this.trust.group_word} ${group}`);
    });
    if (groups.length > 12) entries.push(element("li", {}, `and ${groups.length - 12} more`));
    return element("ul", { class: "key" }, entries);
  }

  asTable() {
    const fold = folded("Weights as a table");
    this.filled = null;
    // Thousands of cells are made only for those who open it.
    fold.addEventListener("toggle", () => this.fillTable());
    return fold;
  }

  // Not at every step of the slider.
  fillTableSoon() {
    clearTimeout(this.filling);
    this.filling = setTimeout(() => this.fillTable(), TABLE_AFTER);
  }

  fillTable() {
    if (!this.table.open || this.filled === this.place) return;
    this.filled = this.place;
    const shown = this.order.slice(0, MOST_IN_TABLE);
    const lines = shown.map((from) => [this.nodes[from].name, ...shown.map((to) => percentText(this.weight(from, to)))]);
    const round = this.trust.rounds[this.place];
    const made = table(`Weights after round ${round}`, ["who trusts", ...shown.map((to) => this.nodes[to].name)], lines);
    const before = this.table.querySelector(".card");
    made.scrollLeft = before ? before.scrollLeft : 0;
    this.table.replaceChildren(this.table.querySelector("summary"), made);
  }
}

// What was pointed at: it stays while new rounds arrive.
let pointedAt = {};

// The nodes of the graph: clients, or groups of them where there are too many.
function nodesOf(cell) {
  const trust = cell.trust;
  if (!trust.by_group) {
    return cell.clients.map((name, place) => ({ name, label: shortened(name, 10), group: trust.groups[place], size: 1 }));
  }
  const count = Math.max(...trust.nodes) + 1;
  const found = [];
  for (let node = 0; node < count; node += 1) {
    const members = trust.groups.filter((_, place) => trust.nodes[place] === node);
    const distinct = new Set(members).size;
    const name = distinct > 1 ? `${distinct} small ${trust.group_word}s` : `${trust.group_word} ${members[0]}`;
    // The word for the groups is in the key: beside a node there is room for its number only.
    const label = `${distinct > 1 ? "small" : members[0]}: ${members.length.toLocaleString("en")}`;
    found.push({ name, label, group: members[0], size: members.length });
  }
  return found;
}

function nodeSize(count) {
  if (count > 90) return 5;
  if (count > 40) return 7;
  return count > 24 ? 10 : FULL_SIZE;
}

// The outline of an arrow from one node to another, bowed to its left: the one that leads back is bowed to the
// other side, so that both are seen.
function arrow([x1, y1], [x2, y2], size, width) {
  const [dx, dy] = [x2 - x1, y2 - y1];
  const long = Math.hypot(dx, dy) || 1;
  // Towards the middle, where there is room, and to the side.
  const [mx, my] = [(x1 + x2) / 2, (y1 + y2) / 2];
  const cx = mx + 0.45 * (MIDDLE - mx) + BOW * dy;
  const cy = my + 0.45 * (MIDDLE - my) - BOW * dx;
  const end = Math.hypot(x2 - cx, y2 - cy) || 1;
  const [tx, ty] = [(x2 - cx) / end, (y2 - cy) / end];
  const head = Math.min(HEAD * (0.45 + (0.55 * size) / FULL_SIZE) + width, long / 3);
  const half = width / 2;
  const [px, py] = [x2 - tx * (size + 2), y2 - ty * (size + 2)];
  const [bx, by] = [px - tx * head, py - ty * head];
  const begin = Math.hypot(cx - x1, cy - y1) || 1;
  const [sx, sy] = [(cx - x1) / begin, (cy - y1) / begin];
  const wing = half + 0.35 * head;
  const at = (x, y, nx, ny, by) => `${(x - ny * by).toFixed(1)},${(y + nx * by).toFixed(1)}`;
  return `M${at(x1, y1, sx, sy, half)} Q${at(cx, cy, dx / long, dy / long, half)} ${at(bx, by, tx, ty, half)}`
    + ` L${at(bx, by, tx, ty, wing)} L${px.toFixed(1)},${py.toFixed(1)} L${at(bx, by, tx, ty, -wing)}`
    + ` L${at(bx, by, tx, ty, -half)} Q${at(cx, cy, dx / long, dy / long, -half)} ${at(x1, y1, sx, sy, -half)} Z`;
}

function nearestPlace(rounds, wanted) {
  let best = 0;
  rounds.forEach((round, place) => {
    if (Math.abs(round - wanted) < Math.abs(rounds[best] - wanted)) best = place;
  });
  return best;
}

// The colour of every weight that a byte can hold.
function allShades() {
  const [none, all] = SHADES[matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"];
  return Array.from({ length: 256 }, (_, byte) => {
    const part = Math.sqrt(byte / 255);
    return [...none.map((light, place) => light + (all[place] - light) * part), 255];
  });
}

function scale() {
  return element("p", { class: "scale" }, "0 %", element("span", { class: "shades" }), "100 %");
}
