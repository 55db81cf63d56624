// Where the page gets what it shows, the server or the file itself, and which address it has.

export const LOST = "The server does not answer. Start federico ui again and open its new link.";
const PARAMETERS = {
  folder: [],
  runs: [],
  network: [],
  site: ["site"],
  run: ["run"],
  cell: ["run", "cell"],
  client: ["run", "cell", "client"],
};
const embedded = document.getElementById("frozen");
export const frozen = embedded ? JSON.parse(embedded.textContent) : null;

// Runs of which only results were kept: there are no rounds of theirs to look into.
const withoutRounds = new Set();

export function hasRounds(run) {
  return !withoutRounds.has(run);
}

// load("cell", run, cell): the names stand in the order of PARAMETERS.
export async function load(kind, ...names) {
  const found = await loaded(kind, names);
  if (kind === "run") {
    if (found.cells.length) withoutRounds.delete(names[0]);
    else withoutRounds.add(names[0]);
  }
  return found;
}

async function loaded(kind, names) {
  if (frozen) return unpacked([kind, ...names].join("\n"));
  const query = new URLSearchParams();
  PARAMETERS[kind].forEach((parameter, place) => query.set(parameter, names[place]));
  return asked(`api/${kind}?${query}`);
}

export async function loadComparison(runs) {
  const query = new URLSearchParams(runs.map((run) => ["run", run]));
  return asked(`api/compare?${query}`);
}

// The server has ended, or the network to it.
export class NotReachedError extends Error {}

async function asked(path) {
  let answer;
  try {
    answer = await fetch(path);
  } catch {
    throw new NotReachedError(LOST);
  }
  const found = await answer.json();
  if (answer.ok) return found;
  if (answer.status === 404) {
    throw new Error(`There is ${found.detail}: it was deleted or renamed, or the link is of another folder.`);
  }
  if (typeof found.detail !== "string") throw new Error("The server did not understand the link.");
  throw new Error(`This cannot be read: ${found.detail}. ${found.advice || ""}`);
}

async function unpacked(key) {
  if (!(key in frozen.held)) {
    throw new Error("This report does not hold that; look at the run itself with federico ui.");
  }
  const bytes = fromBase64(frozen.held[key]);
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(plain).json();
}

export function fromBase64(text) {
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let place = 0; place < raw.length; place += 1) bytes[place] = raw.charCodeAt(place);
  return bytes;
}

// The address after #: a view, and what it shows. It can be shared.
export function address(hash = location.hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  return { view: path, given: new URLSearchParams(query || "") };
}

export function link(view, given) {
  const query = new URLSearchParams(given).toString();
  return query ? `#/${view}?${query}` : `#/${view}`;
}

// Change one part of the address without drawing anew; null takes it away.
export function remember(name, value) {
  const { view, given } = address();
  if (value === null) given.delete(name);
  else given.set(name, value);
  history.replaceState(null, "", link(view, given));
}

// The cell that is looked at, with the choice of another one.
export async function chosenCell(run, given) {
  if (!run.cells.length) {
    throw new Error("Only results were kept of this run: there are no rounds to look into.");
  }
  const wanted = given.get("cell") || run.cells[0].cell;
  return { wanted, cell: await load("cell", run.name, wanted) };
}

// The same view with another choice.
export function goTo(name, value) {
  const { view, given } = address();
  given.set(name, value);
  location.hash = link(view, given);
}

export function goToCell(cell) {
  goTo("cell", cell);
}

// Of runs with several columns, such as problems, one is shown at a time.
export function chosenColumn(rows) {
  const columns = [...new Set(rows.map((row) => row.column))];
  const wanted = address().given.get("column");
  const chosen = columns.includes(wanted) ? wanted : columns[0];
  return { columns, chosen, rows: rows.filter((row) => row.column === chosen) };
}
