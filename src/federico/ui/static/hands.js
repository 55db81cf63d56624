// What a person is doing with the page. Nothing is taken from under a person's hands: not a slider, not an
// open list, not a selected text.

const LOOK_AGAIN = 300;
const LONGEST_CHOICE = 15000;
const main = document.getElementById("main");
let isPressed = false;
let choosingUntil = 0;

function areBusy() {
  const selection = getSelection();
  const reads = !selection.isCollapsed && main.contains(selection.anchorNode);
  return isPressed || Date.now() < choosingUntil || reads || Boolean(document.documentElement.dataset.playing);
}

// Resolves as soon as the hands are free, and nothing else is in the way.
export async function whenFree(isInTheWay = () => false) {
  while (areBusy() || isInTheWay()) await new Promise((go) => { setTimeout(go, LOOK_AGAIN); });
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
