// The page: one address for each view, drawn again when something has changed.
import { showCompare } from "./compare.js";
import { showCost } from "./cost.js";
import { showData } from "./data.js";
import { element } from "./elements.js";
import { follow } from "./live.js";
import { showNetwork } from "./network.js";
import { showRuns } from "./runs.js";
import { address, frozen, link } from "./source.js";
import { showTrust } from "./trust.js";
import { showWorth } from "./worth.js";

const OF_THE_FOLDER = [["runs", "Runs", showRuns], ["network", "Is the network well?", showNetwork]];
const OF_A_RUN = [
  ["worth", "Is it worth it?", showWorth],
  ["trust", "Who learns with whom?", showTrust],
  ["cost", "What does it cost?", showCost],
  ["data", "Data", showData],
];
const HIDDEN = [["compare", "Compare", showCompare]];
const main = document.getElementById("main");
const live = document.getElementById("live");
const LOOK_AGAIN = 300;
const LONGEST_CHOICE = 15000;
let drawing = 0;
let isDrawing = false;
let isPressed = false;
let choosingUntil = 0;
let isWaiting = false;

async function show() {
  drawing += 1;
  const mine = drawing;
  isDrawing = true;
  const { view, given } = address();
  const run = given.get("run") || (frozen ? frozen.home : null);
  const current = view || (frozen ? "worth" : "runs");
  const found = [...OF_THE_FOLDER, ...OF_A_RUN, ...HIDDEN].find(([name]) => name === current);
  showLinks(current, current === "compare" ? null : run);
  const slow = setTimeout(() => main.setAttribute("aria-busy", "true"), LOOK_AGAIN);
  let made;
  try {
    if (!found) throw new Error("There is no such view.");
    made = await found[2](run, given);
  } catch (error) {
    made = problem(error);
  }
  clearTimeout(slow);
  // A later call has begun: what this one found is out of date.
  if (mine !== drawing) return;
  isDrawing = false;
  main.removeAttribute("aria-busy");
  replace(made.flat().filter(Boolean));
}

function showLinks(current, run) {
  const links = frozen ? [] : OF_THE_FOLDER.map(([name, title]) => [name, title, {}]);
  if (run) links.push(...OF_A_RUN.map(([name, title]) => [name, title, { run }]));
  const made = links.map(([name, title, given]) => {
    return element("a", { href: link(name, given), "aria-current": name === current ? "page" : null }, title);
  });
  document.getElementById("views").replaceChildren(...made);
}

function problem(error) {
  const back = frozen ? null : element("p", {}, element("a", { href: "#/runs" }, "Back to all runs"));
  return [element("h1", {}, "This cannot be shown"), element("p", { class: "note" }, error.message), back];
}

// Nothing jumps: what had the focus, was unfolded or scrolled stays so. Elements are known by data-keep.
function replace(made) {
  const focused = document.activeElement?.dataset?.keep;
  const open = [...main.querySelectorAll("details[open][data-keep]")].map((each) => each.dataset.keep);
  const scrolled = new Map([...main.querySelectorAll(".card[data-keep]")].map((each) => [each.dataset.keep, each.scrollLeft]));
  const top = window.scrollY;
  main.replaceChildren(...made);
  for (const each of main.querySelectorAll("[data-keep]")) {
    const keep = each.dataset.keep;
    if (open.includes(keep)) each.open = true;
    if (scrolled.get(keep)) each.scrollLeft = scrolled.get(keep);
    if (keep === focused) each.focus({ preventScroll: true });
  }
  window.scrollTo(0, top);
}

// What changed concerns the view if it shows that run, or all of them; null is for everything.
function concerns(names) {
  if (names === null) return true;
  const { view, given } = address();
  const runs = given.getAll("run");
  return view === "" || view === "runs" || view === "network" || runs.some((run) => names.includes(run));
}

// Nothing is taken from under a person's hands: not a slider, not an open list, not a selected text.
function isBusy() {
  const selection = getSelection();
  const reads = !selection.isCollapsed && main.contains(selection.anchorNode);
  return isPressed || Date.now() < choosingUntil || reads || Boolean(document.documentElement.dataset.playing);
}

function update(names) {
  if (!concerns(names) || isWaiting) return;
  isWaiting = true;
  const showWhenFree = () => {
    // Rounds may come faster than a view is made: it is finished first, or it would never be shown.
    if (isBusy() || isDrawing) {
      setTimeout(showWhenFree, LOOK_AGAIN);
      return;
    }
    isWaiting = false;
    show();
  };
  showWhenFree();
}

// How long ago the last round came changes while nothing else does.
const AGAIN_AFTER = 30000;
if (!frozen) setInterval(() => update(null), AGAIN_AFTER);

function say(text) {
  if (live.textContent !== text) live.textContent = text;
}

main.addEventListener("pointerdown", (event) => {
  if (event.target.closest("select")) choosingUntil = Date.now() + LONGEST_CHOICE;
  else isPressed = true;
});
main.addEventListener("keydown", (event) => {
  if (event.target.closest("select")) choosingUntil = Date.now() + LONGEST_CHOICE;
});
for (const end of ["change", "focusout"]) main.addEventListener(end, () => { choosingUntil = 0; });
for (const end of ["pointerup", "pointercancel", "blur"]) addEventListener(end, () => { isPressed = false; });
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  window.scrollTo(0, 0);
  show();
});
if (frozen) {
  live.textContent = "Report";
  show();
} else {
  show();
  follow(update, say);
}
