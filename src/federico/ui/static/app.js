// The page: one address for each view, drawn again when something has changed.
import { showCompare } from "./compare.js";
import { showCost } from "./cost.js";
import { showData } from "./data.js";
import { element } from "./elements.js";
import { whenFree } from "./hands.js";
import { follow } from "./live.js";
import { showNetwork } from "./network.js";
import { renewChildren, renewView } from "./renew.js";
import { showRuns } from "./runs.js";
import { address, frozen, hasRounds, link, NotReachedError } from "./source.js";
import { showSite } from "./site.js";
import { showTrust } from "./trust.js";
import { showWorth } from "./worth.js";

const OF_THE_FOLDER = [["runs", "Runs", showRuns], ["network", "Is the network well?", showNetwork]];
const OF_A_SITE = [["site", "This site", showSite], ["network", "Is the network well?", showNetwork]];
const OF_A_RUN = [
  ["worth", "Is it worth it?", showWorth],
  ["trust", "Who learns with whom?", showTrust],
  ["cost", "What does it cost?", showCost],
  ["data", "Data", showData],
];
// Views that need the rounds of a run, and not only its results.
const OF_ROUNDS = ["trust", "data"];
const REPORT = document.title;
const HIDDEN = [["compare", "Compare", showCompare]];
const main = document.getElementById("main");
const live = document.getElementById("live");
const SLOW = 300;
// What there is beside the views of a run: a report is about one run, or about one site.
const VIEWS = viewsBeside();
let drawing = 0;
let isDrawing = false;
let isShown = false;
let restUntil = 0;
let isWaiting = false;

// `again` is for the view that is shown already, as it is now.
async function show(again = false) {
  drawing += 1;
  const mine = drawing;
  const asked = location.hash;
  const began = performance.now();
  isDrawing = true;
  if (!again) isShown = false;
  const { view, given } = address();
  const run = given.get("run") || (frozen ? frozen.home : null);
  const current = view || firstView();
  const found = [...VIEWS, ...OF_A_RUN, ...HIDDEN].find(([name]) => name === current);
  showLinks(current, current === "compare" ? null : run);
  const slow = again ? null : setTimeout(() => main.setAttribute("aria-busy", "true"), SLOW);
  let made;
  let isReached = true;
  try {
    if (!found) throw new Error("There is no such view.");
    made = await found[2](run, given);
  } catch (error) {
    isReached = !(error instanceof NotReachedError);
    made = problem(error);
  }
  clearTimeout(slow);
  const took = performance.now() - began;
  if (again) await whenFree();
  // A later call has begun: what this one found is out of date.
  if (mine !== drawing) return;
  // What is shown was changed by hand meanwhile, such as the round of a slider.
  if (location.hash !== asked) {
    show(again);
    return;
  }
  isDrawing = false;
  // Where a view takes long to make, at least as much time is left to look at it.
  restUntil = Date.now() + took;
  main.removeAttribute("aria-busy");
  // What was read before stays in sight when the server has ended.
  if (isShown && !isReached) return;
  const shownRun = current === "compare" ? null : run;
  showLinks(current, shownRun);
  nameTheWindow(found ? found[1] : "", given.getAll("run"));
  const parts = [trail(shownRun), ...made.flat()].filter(Boolean);
  if (isShown) renewView(main, parts);
  else main.replaceChildren(...parts);
  isShown = isReached;
}

function viewsBeside() {
  if (!frozen) return OF_THE_FOLDER;
  return frozen.home ? [] : OF_A_SITE;
}

function firstView() {
  if (!frozen) return "runs";
  return frozen.home ? "worth" : "site";
}

function showLinks(current, run) {
  const links = VIEWS.map(([name, title]) => [name, title, {}]);
  if (run) links.push(...OF_A_RUN.map(([name, title]) => [name, title, { run }]));
  const made = links.map(([name, title, given]) => {
    if (run && OF_ROUNDS.includes(name) && !hasRounds(run)) {
      return element("span", { class: "off", title: "Only results were kept of this run" }, title);
    }
    return element("a", { href: link(name, given), "aria-current": name === current ? "page" : null }, title);
  });
  const views = document.getElementById("views");
  renewChildren(views, made);
  // On a phone the views are one line that scrolls: the one that is shown is in sight.
  const here = views.querySelector("[aria-current]");
  if (here) views.scrollLeft = here.offsetLeft - views.offsetLeft - (views.clientWidth - here.offsetWidth) / 2;
}

// Where this view is: in which run of the folder.
function trail(run) {
  if (frozen || !run) return null;
  const all = element("a", { href: "#/runs" }, "All runs");
  return element("nav", { class: "trail", "aria-label": "Where this is" }, all, " \u203a ", element("span", {}, run));
}

// Tabs of several views and runs are told apart by their names.
function nameTheWindow(view, runs) {
  if (frozen) document.title = `${view} - ${REPORT}`;
  else document.title = [view, runs.join(" and "), "FedeRiCo"].filter(Boolean).join(" - ");
}

function problem(error) {
  const back = frozen ? null : element("p", {}, element("a", { href: "#/runs" }, "Back to all runs"));
  return [element("h1", {}, "This cannot be shown"), element("p", { class: "note" }, error.message), back];
}

// What changed concerns the view if it shows that run, or all of them; null is for everything.
function concerns(names) {
  if (names === null) return true;
  const { view, given } = address();
  const runs = given.getAll("run");
  return view === "" || view === "runs" || view === "network" || runs.some((run) => names.includes(run));
}

async function update(names) {
  if (!concerns(names) || isWaiting) return;
  isWaiting = true;
  // Rounds may come faster than a view is made: it is finished first, or it would never be shown.
  await whenFree(() => isDrawing || Date.now() < restUntil);
  isWaiting = false;
  show(true);
}

// How long ago the last round came changes while nothing else does.
const AGAIN_AFTER = 30000;
if (!frozen) setInterval(() => update(null), AGAIN_AFTER);

function say(text) {
  if (live.textContent !== text) live.textContent = text;
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
// Another cell or site is chosen in the midst of a view: what surrounds it stays where it is.
const CHOSEN_INSIDE = ["cell", "site", "peer", "column"];

function placeOf(url) {
  const { view, given } = address(new URL(url).hash);
  for (const name of CHOSEN_INSIDE) given.delete(name);
  return link(view, given);
}

addEventListener("hashchange", (event) => {
  const again = isShown && placeOf(event.oldURL) === placeOf(event.newURL);
  if (!again) window.scrollTo(0, 0);
  show(again);
});
if (frozen) {
  live.textContent = "Report";
  show();
} else {
  show();
  follow(update, say);
}
