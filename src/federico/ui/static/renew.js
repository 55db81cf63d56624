// A newer view in the place of an older one. What is as it was stays the same element: nothing is taken away
// from under a hand that is about to press it, and what has the focus keeps it.

// Elements that no script holds on to from outside; of all others only the newer one works.
const LASTING = "h1, h2, .chart, [data-lasting]";
const HOLDERS = new Set(["DIV", "P", "TABLE", "THEAD", "TBODY", "TR"]);

// Show newer parts of a view. What had the focus, was unfolded or scrolled stays so: such elements are known
// by data-keep.
export function renewView(holder, made) {
  const focused = document.activeElement?.dataset?.keep;
  const open = [...holder.querySelectorAll("details[open][data-keep]")].map((each) => each.dataset.keep);
  const scrolled = new Map([...holder.querySelectorAll(".card[data-keep]")].map((each) => [each.dataset.keep, each.scrollLeft]));
  const top = window.scrollY;
  renewChildren(holder, made, (node) => node.matches?.(LASTING));
  for (const each of holder.querySelectorAll("[data-keep]")) {
    const keep = each.dataset.keep;
    if (open.includes(keep)) each.open = true;
    if (scrolled.get(keep)) each.scrollLeft = scrolled.get(keep);
    if (keep === focused) each.focus({ preventScroll: true });
  }
  window.scrollTo(0, top);
}

// Make these the children of `parent`.
export function renewChildren(parent, made, mayStay = () => true) {
  const older = keyed(parent.childNodes);
  const newer = keyed(made);
  for (const [key, node] of older) {
    if (!newer.has(key) || !mayStay(node)) node.remove();
  }
  let last = null;
  for (const [key, node] of newer) {
    const before = older.get(key);
    const used = before && mayStay(before) ? renewed(before, node) : node;
    const next = last ? last.nextSibling : parent.firstChild;
    if (used !== next) parent.insertBefore(used, next);
    last = used;
  }
}

// The older element where it can stay, with what is new inside of it; or else the newer one.
function renewed(older, newer) {
  const isSameChart = older.drawnFrom !== undefined && older.drawnFrom === newer.drawnFrom;
  if (isSameChart || older.isEqualNode(newer)) return older;
  const areAlike = older.cloneNode(false).isEqualNode(newer.cloneNode(false));
  if (areAlike && HOLDERS.has(older.nodeName)) {
    renewChildren(older, newer.childNodes);
    return older;
  }
  older.replaceWith(newer);
  return newer;
}

// Elements by data-keep, and others by how many of their kind stand before them.
function keyed(nodes) {
  const found = new Map();
  for (const node of [...nodes]) {
    const name = node.dataset?.keep ?? node.nodeName;
    let number = 0;
    while (found.has(`${name} ${number}`)) number += 1;
    found.set(`${name} ${number}`, node);
  }
  return found;
}
