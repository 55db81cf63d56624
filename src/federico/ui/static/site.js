// The report of one site: what its peer said last, whom it trusts over the rounds and why, and the members.
import { aboutClient } from "./client.js";
import { coded, element, givenTable, paragraphs } from "./elements.js";
import { load } from "./source.js";
import { dateText } from "./words.js";
import { usedAndAlone } from "./worth.js";

export async function showSite() {
  const own = await load("own");
  const at = new Date(1000 * own.updated).toLocaleTimeString("en", { hourCycle: "h23" });
  return [
    element("h1", {}, own.headline),
    element("p", { class: "soft" }, `As the peer said on ${dateText(own.updated)} at ${at}.`),
    // The view of the rounds begins with the same sentence.
    own.sentence && !own.client?.sentence ? element("p", {}, own.sentence) : null,
    ...own.warnings.map((warning) => element("p", { class: "note" }, coded(warning))),
    ...own.remarks.map((remark) => element("p", {}, coded(remark))),
    own.figures ? givenTable(own.figures) : null,
    ...overTheRounds(own.client),
    element("h2", {}, "Members"),
    members(own.members),
  ];
}

// What was refused may be long.
function members(given) {
  const made = givenTable(given);
  made.classList.add("worded");
  return made;
}

function overTheRounds(client) {
  if (!client) return paragraphs(["It has not finished a round yet."], "soft");
  const [first] = client.figures;
  const chart = first ? usedAndAlone(`${first.name} of ${client.client} over the rounds`, first) : null;
  return [chart, ...aboutClient(client).parts];
}
