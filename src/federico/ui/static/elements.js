// Elements of the page. All text goes in as text: a name that holds HTML stays what it is.

const SVG = "http://www.w3.org/2000/svg";

export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function drawn(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(made, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      made.addEventListener(name.slice(2), value);
    } else if (value !== null && value !== undefined && value !== false) {
      made.setAttribute(name, value);
    }
  }
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined) made.append(typeof child === "string" ? unbroken(child) : child);
  }
  return made;
}

// A number and its unit stay in one line.
function unbroken(text) {
  return text.replace(/(\d) (%|bytes|[kMG]B|m?s|min|hours|days|nats|points)(?![a-z])/g, "$1\u00a0$2");
}

export function paragraphs(texts, kind = null) {
  return texts.filter(Boolean).map((text) => element("p", { class: kind }, text));
}

// Commands stand between `` in what the server says.
export function coded(text) {
  return text.split("`").map((part, place) => (place % 2 ? element("code", {}, part) : part));
}

// A table that scrolls by itself where it is wider than the screen.
export function table(title, headings, lines) {
  const head = headings.map((heading) => element("th", { scope: "col" }, heading));
  const body = lines.map(([name, ...cells]) => {
    const first = element("th", { scope: "row" }, name);
    // On a narrow screen cells may stand below each other, each with its heading.
    const others = cells.map((cell, place) => element("td", { "data-heading": headings[place + 1] }, cell));
    return element("tr", { "data-keep": `row ${first.textContent}` }, first, others);
  });
  const made = element("table", {},
    element("caption", {}, title),
    element("thead", {}, element("tr", {}, head)),
    element("tbody", {}, body));
  const about = { class: "card", tabindex: "0", role: "region", "aria-label": title, "data-keep": `table ${title}`, "data-lasting": "" };
  return element("div", about, made);
}

// On a narrow screen the cells of a row stand below each other.
export function stacked(made) {
  made.classList.add("stacked");
  return made;
}

// A table that the server has put into words.
export function givenTable(given) {
  const lines = given.lines.map((line) => line.map((cell) => {
    if (cell.bold) return element("strong", {}, cell.text);
    return cell.text;
  }));
  // The first column names the rows, which a table on paper need not say.
  const [first, ...others] = given.headings;
  return stacked(table(given.title, [first || "method", ...others], lines));
}

export function folded(title, ...children) {
  return element("details", { "data-keep": `folded ${title}` }, element("summary", { "data-keep": `summary ${title}` }, title), children);
}

// Which of several columns is shown; nothing where there is one.
export function columnChoice(found, change) {
  if (found.columns.length < 2) return null;
  const options = found.columns.map((column) => [column, column]);
  return element("div", { class: "controls" }, choice("Column", options, found.chosen, change));
}

export function choice(title, options, chosen, change) {
  const made = options.map(([value, text]) => {
    return element("option", { value, selected: value === chosen ? "" : null }, text);
  });
  const select = element("select", {
    "data-keep": `choice ${title}`,
    onchange: (event) => change(event.target.value),
  }, made);
  return element("label", {}, `${title} `, select);
}
