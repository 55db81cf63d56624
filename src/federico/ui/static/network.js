// Is the network well? Who is up, in which round, what was refused, and is it worth it at each site.
import { element, paragraphs, table } from "./elements.js";
import { load } from "./source.js";
import { bytesText } from "./words.js";

const SITES = ["site", "state", "round", "figure", "alone and together", "trusts", "sent / received"];
const MEMBERS = ["member", "presence", "reputation", "strikes", "last refused for"];

export async function showNetwork() {
  const sites = await load("network");
  if (!sites.length) {
    return [
      element("h1", {}, "No sites in this folder"),
      element("p", {}, "Give the folder that holds sites' state folders, such as that of ", element("code", {}, "federico launch --directory FOLDER"), "."),
    ];
  }
  const readable = sites.filter((site) => !site.error);
  const up = readable.filter((site) => site.well).length;
  const headline = up === sites.length ? `All ${sites.length} sites are well` : `${up} of ${sites.length} sites are well`;
  return [
    element("h1", {}, headline),
    ...paragraphs(warnings(sites), "note"),
    table("Sites", SITES, sites.map(siteLine)),
    table("Who sees whom, and what was refused", MEMBERS, readable.flatMap(memberLines)),
  ];
}

function warnings(sites) {
  const found = [];
  for (const site of sites) {
    if (site.error) found.push(`${site.name} cannot be read: ${site.error}`);
    else if (!site.well) found.push(`${site.name}: ${site.failure || site.phase}. Last word ${clock(site.updated)}.`);
    if (site.renew) found.push(`${site.name}: ${site.certificate}.`);
    if (site.waits) found.push(`${site.name} waits for ${site.waits}.`);
  }
  return found;
}

function siteLine(site) {
  if (site.error) return [site.name, "\u2717 broken", "", "", "", "", ""];
  return [
    site.name,
    `${site.well ? "\u2713" : "\u2717"} ${site.phase}`,
    `${site.round} of ${site.rounds}`,
    site.score || "-",
    site.worth || "-",
    site.trusts || "-",
    `${bytesText(site.sent)} / ${bytesText(site.received)}`,
  ];
}

function memberLines(site) {
  return site.members.map((member) => [
    `${member.name}, as ${site.name} sees it`,
    presence(member),
    member.reputation,
    String(member.strikes),
    member.reason || "-",
  ]);
}

function presence(member) {
  if (!member.same_protocol) return "here, with another protocol";
  if (!member.same_file) return "here, with another federation file";
  if (member.here) return "here";
  if (member.last_seen) return `away, last seen ${clock(member.last_seen)}`;
  return "not seen yet";
}

function clock(seconds) {
  return new Date(1000 * seconds).toLocaleTimeString("en", { hour12: false });
}
