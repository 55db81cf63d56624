// Who learns with whom? The graph and the weights side by side, over the rounds, and each client.
import { colorOf, shape } from "./charts.js";
import { aboutClient } from "./client.js";
import { choice, drawn, element, folded, paragraphs, table } from "./elements.js";
import { chosenCell, fromBase64, goToCell, load, NotReachedError, remember } from "./source.js";
import { countText, percentText, shortened } from "./words.js";

const SIZE = 520;
const MIDDLE = SIZE / 2;
const RADIUS = 200;
const MOST_LABELLED = 70;
const MOST_LISTED = 400;
const MOST_IN_TABLE = 64;
const PLAY_EVERY = 250;
const MOST_NAMES = 40;
const MOST_LINES = 1000;
const LINE = 16;
const TABLE_AFTER = 150;
// From no weight to all of it, on a light and on a dark page.
const SHADES = { light: [[240, 244, 248], [0, 48, 92]], dark: [[35, 42, 51], [160, 220, 255]] };

export async function showTrust(name, given) {
  const run = await load("run", name);
  const { wanted, cell } = await chosenCell(run, given);
  const cells = run.cells.map((each) => [each.cell, each.name]);
  const head = [
    element("h1", {}, "Who learns with whom?"),
    element("p", { class: "soft" }, `${cell.name}, seed ${cell.seed}. ${run.trust}`),
    element("div", { class: "controls" }, choice("Cell", cells, wanted, goToCell)),
  ];
  if (!cell.trust) {
    return [...head, element("p", { class: "note" }, "This method has no weights over clients' models. Choose a cell of FedeRiCo.")];
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
    this.shapes = this.nodes.map((_, number) => this.node(number));
    this.about = element("section", { id: "about", "aria-label": "What was chosen" });
    this.said = element("output", { for: "round" });
    this.told = element("p", { class: "told", "aria-live": "polite" });
    this.drawnLines = element("p", { class: "told" });
    this.heat = element("canvas", { width: this.nodes.length, height: this.nodes.length, role: "img", "aria-label": "Weights: a row for who trusts, a column for whose model; the same is in a table below" });
    this.table = this.asTable();
    this.followHeat();
    this.paint();
    if (this.client !== null) await this.choose(this.client);
    else if (this.nodes[this.group]) this.chooseGroup(this.group);
    const hint = this.trust.by_group ? `Choose a ${this.trust.group_word} in the graph, then one of its clients.` : "Choose a client in the graph to read why it trusts whom.";
    return [
      this.controls(),
      this.key(),
      element("div", { class: "beside" },
        element("figure", { class: "card" }, element("figcaption", {}, element("strong", {}, "Graph"), this.trust.by_group ? ` Beside a node: its number, how many clients it has, and how much of their weight stays inside. A line leads to the ${this.trust.group_word} whose models are trusted.` : " A line leads to the model that is trusted; thicker is more."), this.graph(), this.drawnLines),
        element("figure", { class: "card" }, element("figcaption", {}, element("strong", {}, "Weights"), " Row: who trusts. Column: whose model."), this.namedHeat(), scale(), this.told)),
      element("p", { class: "soft" }, hint),
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
    const names = () => this.order.map((node) => element("span", {}, nameOf(this.nodes[node])));
    return element("div", { class: "heat" },
      element("div", { class: "columns", "aria-hidden": "true" }, names()),
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
    this.least = element("output", {});
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
    this.said.textContent = `round ${this.trust.rounds[this.place]} of ${this.trust.rounds[this.last]}`;
    if (this.least) this.least.textContent = percentText(this.threshold);
  }

  position(place, radius = RADIUS) {
    const angle = (2 * Math.PI * place) / this.nodes.length - Math.PI / 2;
    return [MIDDLE + radius * Math.cos(angle), MIDDLE + radius * Math.sin(angle)];
  }

  node(number) {
    const { name, group, size } = this.nodes[number];
    const [x, y] = this.positions[number];
    const choose = () => (this.trust.by_group ? this.chooseGroup(number) : this.choose(name));
    const radius = this.trust.by_group ? 6 + 14 * Math.sqrt(size / this.cell.clients.length) : nodeSize(this.nodes.length);
    return shape(group, x, y, radius, {
      class: "node",
      fill: colorOf(group),
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
  }

  graph() {
    const labels = this.nodes.length > MOST_LABELLED ? [] : this.nodes.map((each, number) => {
      const isGroup = this.trust.by_group;
      const [x, y] = this.position(this.order.indexOf(number), isGroup ? RADIUS + 36 : RADIUS + 28);
      // The two lines of a group stand above a node at the top.
      const up = isGroup && y < MIDDLE - RADIUS / 2 ? LINE : 0;
      const side = x > MIDDLE + 40 ? "start" : x < MIDDLE - 40 ? "end" : "middle";
      return drawn("text", { class: "name", x, y: y + 5 - up, "text-anchor": side, "aria-hidden": "true" },
        each.label, drawn("tspan", { x, dy: "1.2em" }, this.inside[number]));
    });
    return drawn("svg", { class: "graph", viewBox: `-100 -50 ${SIZE + 200} ${SIZE + 100}`, role: "group", "aria-label": "Collaboration graph" }, this.edges, this.shapes, labels);
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
    const [x1, y1] = this.positions[from];
    const [x2, y2] = this.positions[to];
    return drawn("path", { d: `M${x1},${y1} Q${MIDDLE},${MIDDLE} ${x2},${y2}`, class: "edge", stroke: colorOf(this.nodes[to].group), "stroke-width": 0.5 + 6 * value });
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
    const groupOf = (owner) => this.trust.groups[this.cell.clients.indexOf(owner)] ?? 7;
    try {
      const found = await load("client", this.run, this.wanted, client);
      this.about.replaceChildren(...aboutClient(found, groupOf).filter(Boolean));
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
  return count > 40 ? 7 : 15;
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
