// The page: one address (hash) for each view, drawn from what the server or the file itself holds.
import { GROUPS, bytesText, drawn, element, figureText, gainBars, lineChart, shape, spark, table, unit } from "./draw.js";

const VIEWS = [["worth", "Is it worth it?"], ["trust", "Who learns with whom?"], ["cost", "What does it cost?"], ["data", "Data"]];
const main = document.getElementById("main");
const live = document.getElementById("live");
const embedded = document.getElementById("frozen");
const frozen = embedded ? JSON.parse(embedded.textContent) : null;
let drawing = 0;
let playing = null;

async function load(path) {
  if (frozen) {
    if (!(path in frozen)) throw new Error("This report does not hold that cell; look at the run with `federico ui`.");
    return frozen[path];
  }
  const answer = await fetch(path);
  const found = await answer.json();
  if (!answer.ok) throw new Error(typeof found.detail === "string" ? found.detail : "The request was refused.");
  return found;
}

function address() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { view: path || "", given: new URLSearchParams(query || "") };
}

function link(view, given) {
  const query = new URLSearchParams(given).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

function goTo(view, given) {
  history.replaceState(null, "", link(view, given));
}

function paragraphs(texts, kind = "") {
  return texts.filter(Boolean).map((text) => element("p", { class: kind || null }, text));
}

async function show() {
  const mine = ++drawing;
  const { view, given } = address();
  const home = frozen ? frozen.home : null;
  const run = given.get("run") || home;
  const current = view || (home ? "worth" : "runs");
  const links = frozen ? [] : [["runs", "Runs", {}], ["network", "Is the network well?", {}]];
  if (run) for (const [name, title] of VIEWS) links.push([name, title, { run }]);
  document.getElementById("views").replaceChildren(...links.map(([name, title, to]) =>
    element("a", { href: link(name, to), "aria-current": name === current ? "page" : null }, title)));
  const draw = { runs: showRuns, compare: showCompare, network: showNetwork, worth: showWorth, trust: showTrust, cost: showCost, data: showData }[current];
  let made;
  try {
    if (!draw) throw new Error("There is no such view.");
    made = await draw(run, given);
  } catch (error) {
    made = [element("h1", {}, "This cannot be shown"), element("p", { class: "note" }, error.message), frozen ? null : element("p", {}, element("a", { href: "#/runs" }, "Back to all runs"))];
  }
  // A later call has begun: what this one found is out of date.
  if (mine !== drawing) return;
  const top = window.scrollY;
  main.replaceChildren(...made.flat().filter(Boolean));
  window.scrollTo(0, top);
}

async function showRuns() {
  const runs = await load("api/runs");
  if (!runs.length) return [element("h1", {}, "No runs in this folder yet"), element("p", {}, "Start one: federico run experiments/digits.toml")];
  const chosen = new Set();
  const compare = element("a", { href: "#/compare" }, "Compare the chosen runs");
  const lines = runs.map((run) => {
    if (run.status === "broken") return [run.name, "", "broken", element("span", {}, run.error), "", "", "", ""];
    const box = element("input", { type: "checkbox", "aria-label": `Compare ${run.name}`, onchange: (event) => {
      if (event.target.checked) chosen.add(run.name); else chosen.delete(run.name);
      compare.setAttribute("href", `#/compare?${[...chosen].map((name) => `runs=${encodeURIComponent(name)}`).join("&")}`);
    } });
    const gain = run.value !== null && run.alone !== null ? figureText(run.value - run.alone, run.metric, true) : "-";
    return [element("a", { href: link("worth", { run: run.name }) }, run.name), box, `${run.status}, round ${run.done} of ${run.rounds}`,
      run.data, run.shown, `${figureText(run.value, run.metric)}${unit(run.metric)}`, gain, spark(run.spark)];
  });
  return [element("h1", {}, "Runs"), table("All runs", ["run", "compare", "status", "data", "method", "figure", "against alone", "over rounds"], lines), element("p", {}, compare)];
}

async function showCompare(_, given) {
  const names = given.getAll("runs");
  if (names.length < 2) return [element("h1", {}, "Compare runs"), element("p", {}, "Choose two or more runs in the list of runs.")];
  const runs = await Promise.all(names.map((name) => load(`api/run?name=${encodeURIComponent(name)}`)));
  const metric = runs[0].metric;
  const scale = metric.percent ? 100 : 1;
  const curves = runs.flatMap((run, number) => run.rows.map((row) => ({ name: `${run.name}: ${row.name}`, color: GROUPS[number % GROUPS.length], x: row.rounds, y: row.mean.map((y) => (y === null ? null : scale * y)) })));
  const lines = runs.flatMap((run) => run.rows.map((row) => {
    const first = runs[0].rows.find((other) => other.name === row.name);
    const shared = first ? Object.keys(row.by_seed).filter((seed) => seed in first.by_seed) : [];
    const differences = shared.map((seed) => row.by_seed[seed] - first.by_seed[seed]);
    const mean = differences.length ? differences.reduce((sum, each) => sum + each, 0) / differences.length : null;
    const ends = differences.length ? `${figureText(Math.min(...differences), metric, true)} to ${figureText(Math.max(...differences), metric, true)}` : "-";
    return [`${run.name}: ${row.name}`, figureText(row.value, metric), figureText(row.spread, metric), run === runs[0] ? "" : figureText(mean, metric, true), run === runs[0] ? "" : `${ends} (${differences.length} seeds)`];
  }));
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.settings)))].filter((key) => new Set(runs.map((run) => run.settings[key])).size > 1);
  return [element("h1", {}, "Compare runs"), lineChart("Over rounds", "round", metric.name + unit(metric), curves),
    element("h2", {}, "Differences"), table("Differences, seed by seed", ["run and row", metric.name + unit(metric), "± over seeds", `against ${names[0]}`, "lowest to highest"], lines),
    element("h2", {}, "Settings that differ"), keys.length ? table("Settings that differ", ["setting", ...names], keys.map((key) => [key, ...runs.map((run) => run.settings[key] ?? "not there")])) : element("p", {}, "None.")];
}

async function showWorth(name, given) {
  const run = await load(`api/run?name=${encodeURIComponent(name)}`);
  const metric = run.metric;
  const scale = metric.percent ? 100 : 1;
  const curves = run.rows.map((row) => ({ name: row.name, color: row.color === "#000000" ? "var(--ink)" : row.color, x: row.rounds, y: row.mean.map((y) => (y === null ? null : scale * y)) }));
  const known = run.rows.find((row) => row.clients.length);
  const parts = [element("p", { class: "soft" }, run.title), element("h1", {}, run.headline), ...paragraphs([run.trust, run.paper]), ...paragraphs([`${run.extent}.`], "soft"), ...paragraphs([run.progress, run.warning, ...run.differences], "note"),
    ...paragraphs(run.worth), lineChart("All methods", "round", `${metric.name}${unit(metric)}, mean over clients and seeds`, curves)];
  if (known) {
    const rows = known.clients.slice(0, 100);
    parts.push(element("h2", {}, "Who gains?"), gainBars(`${known.name}: gain against training alone, by client`, rows.map((row) => ({ name: row.client, value: row.gain, text: figureText(row.gain, metric, true) }))),
      element("details", {}, element("summary", {}, "As a table"), table("Each client", ["client", "alone", "FedAvg", "with collaborators", "used", "gain", "together counts"], rows.map((row) => [row.client, figureText(row.alone, metric), figureText(row.fedavg, metric), figureText(row.together, metric), figureText(row.used, metric), figureText(row.gain, metric, true), row.share === null ? "-" : `${Math.round(100 * row.share)} %`]))));
  }
  parts.push(element("h2", {}, "Any metric, over the rounds"), ...(await metricOverRounds(run, given)));
  parts.push(element("h2", {}, "Tables"), ...run.tables.map((each) => table(each.title, each.headings, each.lines.map((line) => line.map((cell) => (cell.bold ? element("strong", {}, cell.text) : cell.text))))), ...paragraphs([run.notes], "soft"));
  parts.push(element("details", {}, element("summary", {}, "Settings"), table("Settings", ["setting", "value"], Object.entries(run.settings))),
    element("details", {}, element("summary", {}, "Where it comes from"), ...run.sources.map((source) => element("p", {}, element("code", {}, source.command), ` ${source.origin}`)), ...run.origins.map((origin) => element("p", {}, `seed ${origin.seed}: data `, element("code", {}, origin.data), " partition ", element("code", {}, origin.partition)))));
  return parts;
}

function cellChoice(run, chosen, view, given) {
  return element("label", {}, "Cell ", element("select", { onchange: (event) => { location.hash = link(view, { ...Object.fromEntries(given), run: run.name, cell: event.target.value }); } },
    run.cells.map((cell) => element("option", { value: cell.cell, selected: cell.cell === chosen ? "" : null }, cell.name))));
}

async function loadCell(run, given) {
  if (!run.cells.length) throw new Error("Only results were kept of this run: there are no cells to look into.");
  const wanted = given.get("cell") || run.cells[0].cell;
  return [wanted, await load(`api/cell?run=${encodeURIComponent(run.name)}&cell=${encodeURIComponent(wanted)}`)];
}

async function metricOverRounds(run, given) {
  if (!run.cells.length) return [element("p", {}, "Only results were kept of this run.")];
  const [wanted, cell] = await loadCell(run, given);
  const holder = element("div");
  const draw = (key) => {
    const metric = cell.figures.find((each) => each.key === key) || cell.figures[0];
    if (!metric) return;
    const scaled = (values) => values.map((y) => (y === null ? null : metric.percent ? 100 * y : y));
    const lines = [{ name: "used", color: "var(--better)", x: metric.rounds, y: scaled(metric.used) }];
    if (metric.alone.length === metric.rounds.length) lines.push({ name: "alone", color: "var(--soft)", x: metric.rounds, y: scaled(metric.alone) });
    holder.replaceChildren(lineChart(`${cell.name}, seed ${cell.seed}`, "round", metric.name + unit(metric), lines));
  };
  const choice = element("select", { onchange: (event) => { goTo("worth", { run: run.name, cell: wanted, metric: event.target.value }); draw(event.target.value); } },
    cell.figures.map((each) => element("option", { value: each.key, selected: each.key === given.get("metric") ? "" : null }, each.name)));
  draw(given.get("metric"));
  return [element("div", { class: "controls" }, cellChoice(run, wanted, "worth", given), element("label", {}, "Metric ", choice)), holder];
}

function unpack(text, nodes, rounds) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let place = 0; place < raw.length; place += 1) bytes[place] = raw.charCodeAt(place);
  return (round, from, to) => bytes[(round * nodes + from) * nodes + to] / 255;
}

async function showTrust(name, given) {
  const run = await load(`api/run?name=${encodeURIComponent(name)}`);
  const [wanted, cell] = await loadCell(run, given);
  const trust = cell.trust;
  const head = [element("h1", {}, "Who learns with whom?"), element("p", { class: "soft" }, `${cell.name}, seed ${cell.seed}. ${run.trust}`), element("div", { class: "controls" }, cellChoice(run, wanted, "trust", given))];
  if (!trust) return [...head, element("p", { class: "note" }, "This method has no weights over clients' models; choose a cell of FedeRiCo.")];
  const distinct = [...new Set(trust.groups)].sort((a, b) => a - b);
  const names = trust.by_cluster ? distinct.map((group) => `${trust.group_word} ${group}`) : cell.clients;
  const groupOf = trust.by_cluster ? distinct.map((_, place) => place) : trust.groups.map((group) => distinct.indexOf(group));
  const order = trust.by_cluster ? names.map((_, place) => place) : trust.order;
  const weight = unpack(trust.weights, names.length, cell.rounds.length);
  const last = cell.rounds.length - 1;
  const state = { round: Math.max(0, given.has("round") ? cell.rounds.indexOf(Number(given.get("round"))) : last), threshold: Number(given.get("threshold") || 0.1), client: given.get("client") };
  const graph = drawn("svg", { viewBox: "0 0 520 520", role: "group", "aria-label": "Collaboration graph" });
  const heat = element("canvas", { width: names.length, height: names.length, role: "img", "aria-label": "How much each client (row) trusts each model (column)" });
  const tip = element("p", { class: "tip", "aria-live": "polite" });
  const label = element("output", {}, "");
  const about = element("section", { "aria-label": "The chosen client", id: "about" });
  const place = (number) => { const angle = (2 * Math.PI * order.indexOf(number)) / names.length - Math.PI / 2; return [260 + 205 * Math.cos(angle), 260 + 205 * Math.sin(angle)]; };
  const places = names.map((_, number) => place(number));

  function remember() {
    const to = { run: run.name, cell: wanted, round: cell.rounds[state.round], threshold: state.threshold };
    if (state.client !== null) to.client = state.client;
    goTo("trust", to);
  }
  const edges = drawn("g", { "aria-hidden": "true" });
  const nodes = names.map((each, number) => {
    const [x, y] = places[number];
    const choose = () => { if (trust.by_cluster) chooseCluster(distinct[number]); else chooseClient(each); };
    const node = shape(groupOf[number], x, y, names.length > 40 ? 7 : 13, { class: "node", fill: GROUPS[groupOf[number] % GROUPS.length], tabindex: "0", role: "button", "aria-pressed": "false", "aria-label": `${each}, ${trust.group_word} ${distinct[groupOf[number]]}`, onclick: choose, onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(); } } });
    return node;
  });
  const labels = names.map((each, number) => { const [x, y] = places[number]; return drawn("text", { class: "name", x: 260 + (x - 260) * 1.13, y: 264 + (y - 260) * 1.13, "text-anchor": "middle", "aria-hidden": "true" }, each.length > 12 ? `${each.slice(0, 11)}\u2026` : each); });
  graph.append(edges, ...nodes, ...(names.length > 70 ? [] : labels));

  function paint() {
    const lines = [];
    const context = heat.getContext("2d");
    const pixels = context.createImageData(names.length, names.length);
    order.forEach((from, row) => order.forEach((to, column) => {
      const value = weight(state.round, from, to);
      const at = 4 * (row * names.length + column);
      pixels.data.set([245 - 245 * value, 248 - 180 * value, 251 - 110 * value, 255], at);
      if (from !== to && value >= state.threshold) {
        const [x1, y1] = places[from];
        const [x2, y2] = places[to];
        lines.push(drawn("path", { d: `M${x1},${y1} Q260,260 ${x2},${y2}`, class: "line", stroke: GROUPS[groupOf[to] % GROUPS.length], "stroke-width": 0.5 + 6 * value, opacity: 0.65 }));
      }
    }));
    context.putImageData(pixels, 0, 0);
    edges.replaceChildren(...lines);
    nodes.forEach((node, number) => node.setAttribute("aria-pressed", String(names[number] === state.client)));
    label.textContent = `round ${cell.rounds[state.round]} of ${cell.rounds[last]}`;
  }
  heat.addEventListener("pointermove", (event) => {
    const box = heat.getBoundingClientRect();
    const from = order[Math.floor(((event.clientY - box.top) / box.height) * names.length)];
    const to = order[Math.floor(((event.clientX - box.left) / box.width) * names.length)];
    if (from !== undefined && to !== undefined) tip.textContent = `${names[from]} gives ${names[to]} ${Math.round(100 * weight(state.round, from, to))} % of its weight`;
  });
  heat.addEventListener("click", (event) => {
    const box = heat.getBoundingClientRect();
    const from = order[Math.floor(((event.clientY - box.top) / box.height) * names.length)];
    if (!trust.by_cluster && from !== undefined) chooseClient(names[from]);
  });

  function chooseCluster(group) {
    const members = cell.clients.filter((_, number) => trust.groups[number] === group);
    about.replaceChildren(element("h2", {}, `${trust.group_word} ${group}: ${members.length} clients`), element("p", {}, ...members.slice(0, 300).flatMap((each) => [element("button", { class: "linklike", type: "button", onclick: () => chooseClient(each) }, each), " "])));
  }
  function chooseClient(client) {
    const number = cell.clients.indexOf(client);
    if (number < 0) return;
    state.client = client;
    remember();
    let series;
    if (trust.by_cluster) series = Object.entries(trust.series[number]);
    else {
      series = names.map((owner, to) => [owner, cell.rounds.map((_, round) => 100 * weight(round, number, to))]);
      series = series.filter(([, values]) => Math.max(...values) >= 1).sort((a, b) => Math.max(...b[1]) - Math.max(...a[1])).slice(0, 12);
    }
    const lines = series.map(([owner, values]) => ({ name: owner === client ? `${owner} (own)` : owner, color: owner === client ? "var(--ink)" : GROUPS[distinct.indexOf(trust.groups[cell.clients.indexOf(owner)]) % GROUPS.length] || "var(--soft)", x: cell.rounds, y: values }));
    const moves = trust.moves[number].map((move) => element("li", {}, `Round ${move.round}: ${move.owner} went from ${Math.round(100 * move.before)} % to ${Math.round(100 * move.after)} %${move.visited.length ? `, after ${client} judged ${move.visited.join(", ")}` : ""}.`));
    const counts = cell.data.counts[number] || [];
    about.replaceChildren(element("h2", {}, `Client ${client}`), element("p", { id: "sentence" }, trust.sentences[number]),
      lineChart(`Whose models ${client} trusts, over the rounds`, "round", "weight (%)", lines),
      element("h3", {}, "When trust moved"), moves.length ? element("ul", {}, moves) : element("p", {}, "It never moved by 5 points or more in a round."),
      element("h3", {}, "Its data"), element("p", {}, `${cell.data.train[number]} training and ${cell.data.test[number]} test samples; sent ${bytesText(cell.sent[number])}, received ${bytesText(cell.received[number])} to train.`),
      counts.length ? gainBars("Training samples of each label", counts.map((count, each) => ({ name: cell.data.labels[each], value: count, text: String(count) }))) : null);
    paint();
  }

  const slider = element("input", { type: "range", min: 0, max: last, value: state.round, "aria-label": "Round", id: "round", oninput: (event) => { state.round = Number(event.target.value); paint(); remember(); } });
  const threshold = element("input", { type: "range", min: 0.01, max: 0.6, step: 0.01, value: state.threshold, "aria-label": "Least weight of an edge", oninput: (event) => { state.threshold = Number(event.target.value); paint(); remember(); } });
  const play = element("button", { type: "button", onclick: () => {
    if (playing) { clearInterval(playing); playing = null; play.textContent = "Play"; return; }
    if (state.round === last) state.round = 0;
    play.textContent = "Stop";
    playing = setInterval(() => {
      if (!slider.isConnected || state.round >= last) { clearInterval(playing); playing = null; play.textContent = "Play"; return; }
      state.round += 1; slider.value = state.round; paint();
    }, 200);
  } }, "Play");
  paint();
  if (state.client !== null) chooseClient(state.client);
  const keyOf = element("ul", { class: "key" }, distinct.slice(0, 12).map((group, number) => element("li", {}, drawn("svg", { viewBox: "0 0 32 14", "aria-hidden": "true" }, shape(number, 16, 7, 5, { fill: GROUPS[number % GROUPS.length] })), `${trust.group_word} ${group}`)));
  const rows = order.slice(0, 64).map((from) => [names[from], ...order.slice(0, 64).map((to) => `${Math.round(100 * weight(last, from, to))}`)]);
  return [...head, element("div", { class: "controls" }, play, slider, label, element("label", {}, "edges from ", threshold)), keyOf,
    element("div", { class: "beside" }, element("div", { class: "card" }, element("h2", {}, "Graph"), graph), element("div", { class: "card" }, element("h2", {}, "Weights"), element("p", { class: "soft" }, "Row: who trusts. Column: whose model. Darker is more."), heat, tip)),
    element("p", { class: "soft" }, trust.by_cluster ? "Choose a cluster, then a client." : "Choose a client in the graph to see why it trusts whom."), about,
    element("details", {}, element("summary", {}, "Weights as a table"), table("Weights after the last round, in %", ["client", ...order.slice(0, 64).map((to) => names[to])], rows))];
}

async function showCost(name, given) {
  const run = await load(`api/run?name=${encodeURIComponent(name)}`);
  const metric = run.metric;
  const scaled = (values) => values.map((y) => (y === null ? null : metric.percent ? 100 * y : y));
  const color = (row) => (row.color === "#000000" ? "var(--ink)" : row.color);
  const parts = [element("h1", {}, "What does it cost?"),
    element("div", { class: "beside" }, lineChart(`${metric.name} per megabyte`, "MB", metric.name + unit(metric), run.rows.map((row) => ({ name: row.name, color: color(row), x: row.bytes.map((each) => each / 1e6), y: scaled(row.mean) }))),
      lineChart(`${metric.name} per second`, "processor s", metric.name + unit(metric), run.rows.map((row) => ({ name: row.name, color: color(row), x: row.seconds, y: scaled(row.mean) })))),
    table("Cost of one run", ["row", metric.name + unit(metric), "moved", "processor seconds"], run.rows.map((row) => [row.name, figureText(row.value, metric), bytesText(row.bytes.at(-1) || 0), (row.seconds.at(-1) || 0).toFixed(1)]))];
  if (!run.cells.length) return parts;
  const [wanted, cell] = await loadCell(run, given);
  const phases = Object.entries(cell.phases);
  parts.push(element("h2", {}, `${cell.name}, seed ${cell.seed}`), element("div", { class: "controls" }, cellChoice(run, wanted, "cost", given)),
    lineChart("Bytes in each round", "round", "MB", [{ name: "all messages", color: "var(--better)", x: cell.rounds, y: cell.moved.map((each) => each / 1e6) }]));
  if (phases.length) parts.push(table("Seconds by phase, of all rounds", ["phase", "seconds", "share"], phases.map(([phase, values]) => {
    const total = phases.reduce((sum, [, each]) => sum + each.reduce((a, b) => a + b, 0), 0);
    const spent = values.reduce((a, b) => a + b, 0);
    return [phase, spent.toFixed(2), `${Math.round((100 * spent) / total)} %`];
  })));
  parts.push(table("Bytes by client", ["client", "sent", "received"], cell.clients.slice(0, 200).map((client, number) => [client, bytesText(cell.sent[number]), bytesText(cell.received[number])])));
  return parts;
}

async function showData(name, given) {
  const run = await load(`api/run?name=${encodeURIComponent(name)}`);
  const [wanted, cell] = await loadCell(run, given);
  const data = cell.data;
  const shown = cell.clients.slice(0, 100);
  const parts = [element("h1", {}, "Data"), element("div", { class: "controls" }, cellChoice(run, wanted, "data", given)),
    element("p", {}, `${cell.clients.length} clients with ${data.train.reduce((a, b) => a + b, 0)} training samples: from ${Math.min(...data.train)} to ${Math.max(...data.train)} each.`)];
  if (data.counts.length) {
    const most = Math.max(...data.counts.flat(), 1);
    const across = data.labels.length;
    const svg = drawn("svg", { viewBox: `0 0 ${90 + 26 * across} ${30 + 26 * shown.length}`, role: "img", "aria-label": "Samples of each label (column) that each client (row) has; the area is the count" });
    data.labels.forEach((each, column) => svg.append(drawn("text", { x: 103 + 26 * column, y: 16, "text-anchor": "middle" }, each.slice(0, 4))));
    shown.forEach((client, row) => {
      svg.append(drawn("text", { class: "name", x: 84, y: 47 + 26 * row, "text-anchor": "end" }, client.slice(0, 12)));
      data.counts[row].forEach((count, column) => { if (count) svg.append(drawn("circle", { cx: 103 + 26 * column, cy: 43 + 26 * row, r: 12 * Math.sqrt(count / most), fill: "var(--better)" })); });
    });
    parts.push(element("div", { class: "card" }, element("h2", {}, "Who has what"), svg));
  }
  const missing = (number) => data.labels.filter((_, each) => data.counts[number] && !data.counts[number][each]);
  parts.push(table("Clients", ["client", "distribution", "training samples", "test samples", "labels it has none of"], shown.map((client, number) => [client, data.distribution ? String(data.distribution[number]) : "-", String(data.train[number]), String(data.test[number]), missing(number).slice(0, 12).join(", ") || "-"])),
    element("p", {}, "Hash of the data ", element("code", {}, data.data_hash), ", of the partition ", element("code", {}, data.partition_hash)));
  return parts;
}

async function showNetwork() {
  const sites = await load("api/network");
  if (!sites.length) return [element("h1", {}, "No sites in this folder"), element("p", {}, "Give the folder that holds sites' state folders, such as that of federico launch --directory.")];
  const lines = sites.map((site) => (site.error ? [site.site, "broken", "", site.error, "", "", ""] : [site.name, site.phase, `${site.round} of ${site.rounds}`, site.score, site.worth || "-", site.trusts || "-", `${bytesText(site.sent)} / ${bytesText(site.received)}`]));
  const seen = sites.filter((site) => !site.error).flatMap((site) => site.members.map((member) => [`${member.name}, as ${site.name} sees it`, member.here ? "here" : member.last_seen ? `away since ${new Date(1000 * member.last_seen).toLocaleTimeString()}` : "not seen yet", member.same_file ? "same" : "another", member.reputation, String(member.strikes), member.reason || "-"]));
  return [element("h1", {}, "Is the network well?"), table("Sites", ["site", "phase", "round", "figure", "alone and together", "trusts", "sent / received"], lines), element("details", { open: "" }, element("summary", {}, "Who sees whom, and refused messages"), table("Members", ["member", "presence", "federation file", "reputation", "strikes", "last refused for"], seen))];
}

function follow() {
  const events = new EventSource("api/events");
  events.onmessage = () => { if (!playing && !main.contains(document.activeElement?.closest?.("input, select"))) show(); live.textContent = `Updated ${new Date().toLocaleTimeString()}`; };
  events.onopen = () => { live.textContent = "Following"; };
  events.onerror = () => { live.textContent = "The server does not answer; start federico ui again."; };
}

addEventListener("hashchange", show);
show();
if (!frozen) follow();
else live.textContent = "Report";
