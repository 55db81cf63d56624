// Is the network well? Who is up, in which round, what was refused, and is it worth it at each site.
import { costOfRounds } from "./cost.js";
import { choice, coded, element, paragraphs, stacked, table } from "./elements.js";
import { goTo, load } from "./source.js";
import { bytesText, called, listed, secondsText, whenText } from "./words.js";

const SITES = ["site", "state", "round", "last word", "reaches", "alone against together", "trusts", "sent and received", "certificate ends in"];
const REFUSED = ["site", "refuses", "reputation", "strikes", "messages, and how often", "updates"];
const MOST_IN_MATRIX = 30;

export async function showNetwork(_, given) {
  const sites = await load("network");
  if (!sites.length) {
    return [
      element("h1", {}, "No sites in this folder"),
      element("p", {}, "Give the folder that holds sites' state folders, such as that of ", element("code", { class: "whole" }, "federico launch --directory FOLDER"), "."),
    ];
  }
  const readable = sites.filter((site) => !site.error);
  const federations = apart(readable);
  return [
    element("h1", {}, headline(sites, federations)),
    ...warnings(sites).map((text) => element("p", { class: "note" }, coded(text))),
    ...federations.flatMap(({ name, members }) => ofFederation(name, members, federations.length > 1)),
    element("h2", {}, "What a site's rounds cost it"),
    ...(await rounds(federations, given)),
  ];
}

// The federations that the sites are of, by name. Two of one name, such as a copy of a folder, are told apart by
// the folder that they lie in: no federation has two members of one name.
function apart(sites) {
  const found = new Map();
  for (const site of sites) {
    const namesakes = sites.filter((each) => each.federation === site.federation);
    const areSeveral = new Set(namesakes.map((each) => each.name)).size < namesakes.length;
    const name = areSeveral ? `${site.federation} in ${folderOf(site)}` : site.federation;
    found.set(name, [...(found.get(name) || []), site]);
  }
  return [...found].map(([name, members]) => ({ name, members }));
}

// The folder around that of a site, which holds its state folder.
function folderOf(site) {
  return site.site.split("/").slice(0, -2).join("/") || "this folder";
}

function headline(sites, federations) {
  const well = sites.filter((site) => site.well);
  const ended = well.filter((site) => site.ended).length;
  if (sites.length === 1) return sites[0].ended && sites[0].well ? "This site has ended" : `This site is ${well.length ? "" : "not "}well`;
  const of = federations.length > 1 ? ` of ${federations.length} federations` : "";
  const all = `All ${sites.length} sites${of}`;
  if (ended === sites.length) return `${all} have ended`;
  if (well.length < sites.length) return `${well.length} of ${sites.length} sites${of} are well`;
  return ended ? `${all} are well; ${ended} of them ${ended === 1 ? "has" : "have"} ended` : `${all} are well`;
}

// Sites of two federations that lie in one folder have nothing to do with each other.
function ofFederation(federation, sites, isOneOfSeveral) {
  const title = isOneOfSeveral ? ` in ${federation}` : "";
  const list = table(`Sites${title}`, SITES, sites.map(siteLine));
  list.classList.add("stacked", "worded");
  return [
    isOneOfSeveral ? element("h2", {}, `Federation ${federation}`) : null,
    list,
    element("h2", {}, `Who sees whom${title}`),
    ...whoSeesWhom(sites, title),
    element("h2", {}, `Refused messages${title}`),
    ...refused(sites, title),
  ];
}

async function rounds(federations, given) {
  const played = federations.flatMap(({ members }) => members).filter((site) => site.round);
  if (!played.length) return paragraphs(["No site has finished a round yet."]);
  const chosen = played.find((site) => site.site === given.get("site")) || played[0];
  const ofSeveral = federations.length > 1;
  const names = federations.flatMap(({ name, members }) => members.filter((site) => site.round).map((site) => [site.site, ofSeveral ? `${site.name}, ${name}` : site.name]));
  const choose = names.length > 1 ? choice("Site", names, chosen.site, (name) => goTo("site", name)) : null;
  const controls = element("div", { class: "controls" }, choose);
  const found = await load("site", chosen.site);
  if (!found.rounds.length) return [controls, ...paragraphs([`The records of ${chosen.name} are not in its state folder.`])];
  return [controls, ...costOfRounds(found, `in messages of ${called(chosen.name, "site")}`, [
    ["sent to train", found.sent],
    ["received to train", found.received],
    ["sent to evaluate", found.evaluation_sent],
    ["received to evaluate", found.evaluation_received],
  ])];
}

function warnings(sites) {
  const found = [];
  for (const site of sites) {
    if (site.error) found.push(`${site.name} cannot be read: ${site.error}. The peer writes its status anew when it is started again.`);
    else if (!site.well) found.push(`${site.name}: ${site.failure || site.phase}. Last word ${whenText(site.updated)}.`);
    if (site.renew) found.push(`${site.name}: ${site.certificate}.`);
    for (const member of (site.members || []).filter((each) => each.twice)) {
      found.push(`${site.name} hears two processes with the key of ${member.name}, such as a restored one beside the lost one: stop one of them.`);
    }
    if (site.clock) found.push(`The clock of ${site.name} is ${site.clock} of those of most members: set it right.`);
    for (const member of (site.members || []).filter((each) => each.clock)) {
      found.push(`${site.name} finds the clock of ${member.name} ${member.clock} of those of most members: set it right.`);
    }
    if (site.waits) found.push(`${site.name} waits for ${site.waits}.`);
  }
  return found;
}

function siteLine(site) {
  return [
    site.name,
    `${site.ended && site.well ? "\u25a0" : site.well ? "\u2713" : "\u2717"} ${site.phase}`,
    `${site.round.toLocaleString("en")} of ${site.rounds.toLocaleString("en")}`,
    wholeParts(whenText(site.updated)),
    site.score || "-",
    site.worth || "-",
    // A name and its weight stay in one line.
    site.trusts.replaceAll(" (", "\u00a0(") || "-",
    `${bytesText(site.sent)} and ${bytesText(site.received)} to train, ${bytesText(site.evaluation_sent)} and ${bytesText(site.evaluation_received)} to evaluate, in ${secondsText(site.up)}`,
    site.days === null ? "-" : `${site.days} days`,
  ];
}

// A date and a time may stand in two lines, but neither is broken.
function wholeParts(text) {
  return text.split(" ").map((part) => [element("span", { class: "whole" }, part), " "]);
}

// A row for every site that is alive: what it knows of the others now.
function whoSeesWhom(sites, title) {
  const alive = sites.filter((site) => site.well && !site.ended);
  const over = new Set(sites.filter((site) => site.ended).map((site) => site.name));
  if (sites.every((site) => site.ended)) return paragraphs(["Who has ended looks for nobody any more."]);
  const names = [...new Set(sites.flatMap((site) => [site.name, ...site.members.map((member) => member.name)]))];
  if (!alive.length) return paragraphs(["No site gives a sign of life."]);
  if (names.length > MOST_IN_MATRIX) return paragraphs(alive.map(missing));
  const lines = alive.map((site) => [site.name, ...names.map((name) => {
    if (name === site.name) return "itself";
    const member = site.members.find((each) => each.name === name);
    return member ? presence(member, over.has(name)) : "-";
  })]);
  return [stacked(table(`Each row: what this site sees${title}`, ["site", ...names], lines))];
}

function missing(site) {
  const away = site.members.filter((member) => !member.here).map((member) => member.name);
  if (!away.length) return `${site.name} sees all others.`;
  return `${site.name} does not see ${listed(away)}.`;
}

function refused(sites, title) {
  const lines = sites.flatMap((site) => site.members
    .filter((member) => member.strikes || member.refused || member.refused_updates || member.reputation !== "good")
    .map((member) => [site.name, member.name, member.reputation, String(member.strikes), member.refused || "-", member.refused_updates || "-"]));
  if (!lines.length) return paragraphs(["None: no site has refused anything since it was started."]);
  const made = stacked(table(`What was refused since the site was started${title}`, REFUSED, lines));
  made.classList.add("worded");
  return [made];
}

function presence(member, hasEnded) {
  if (member.twice) return "\u2717 two processes have its key";
  if (!member.same_protocol) return "\u2717 another protocol";
  if (!member.same_file) return "\u2717 another federation file";
  if (member.here) return "\u2713 here";
  if (hasEnded) return "\u25a0 ended";
  if (member.last_seen) return `\u2717 away since ${whenText(member.last_seen)}`;
  return "\u2717 not seen yet";
}
