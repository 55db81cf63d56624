// Numbers with their units and a sensible number of digits.

const MINUS = "\u2212";
const MOST_LETTERS = 14;
const DIGITS = 4;
// Seconds of a unit, from how many on it is used, and its name.
const TIME_UNITS = [[3600, 7200, "hours"], [60, 120, "min"], [1, 1, "s"], [1e-3, 0, "ms"]];
const UNITS = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];

export function figureText(value, metric, signed = false) {
  if (value === null || value === undefined) return "-";
  let text = Number(value.toPrecision(3)).toString();
  if (metric.percent) text = (100 * value).toFixed(1);
  if (signed && value > 0) text = `+${text}`;
  return text.replace("-", MINUS);
}

// A number as a person reads it: a few digits, commas, a minus sign, and its unit.
export function valueText(value, unit = "") {
  if (value === null || value === undefined) return "-";
  if (unit === "s") return secondsText(value);
  const digits = unit === "%" ? { maximumFractionDigits: 1 } : { maximumSignificantDigits: unit ? DIGITS - 1 : DIGITS };
  const text = value.toLocaleString("en", digits).replace("-", MINUS);
  return unit ? `${text} ${unit}` : text;
}

export function axisText(value) {
  return value.toLocaleString("en", { maximumSignificantDigits: 6 }).replace("-", MINUS);
}

export function unitOfMetric(metric) {
  return metric.percent ? "%" : "";
}

export function axisName(metric) {
  return metric.percent ? `${metric.name} (%)` : metric.name;
}

export function withUnit(value, metric) {
  return metric.percent ? `${figureText(value, metric)} %` : figureText(value, metric);
}

export function gainText(value, metric) {
  const text = figureText(value, metric, true);
  return metric.percent ? `${text} points` : text;
}

// Values as an axis shows them; gaps stay gaps.
export function scaled(values, metric) {
  return values.map((value) => {
    if (value === null) return null;
    return metric.percent ? 100 * value : value;
  });
}

export function percentText(share) {
  if (share === null || share === undefined) return "-";
  // The two stay in one line.
  return `${Math.round(100 * share)}\u00a0%`;
}

// What a model is worth to a client.
export function natsText(gain) {
  const text = Number(Math.abs(gain).toPrecision(3));
  return `${gain < 0 ? MINUS : "+"}${text} nats`;
}

export function bytesText(count) {
  for (const [size, name] of UNITS) {
    if (count >= size) return `${Number((count / size).toPrecision(3))} ${name}`;
  }
  return `${count} bytes`;
}

// The unit that fits the largest of these numbers of bytes: its size and name.
export function unitOf(counts) {
  const most = Math.max(0, ...counts.filter((count) => count !== null));
  return UNITS.find(([size]) => most >= size) || [1, "bytes"];
}

// The unit that fits the longest of these times: its seconds and name.
export function timeUnitOf(times) {
  const most = Math.max(0, ...times);
  return TIME_UNITS.find(([, least]) => most >= least).filter((_, place) => place !== 1);
}

// Bytes or seconds in a given unit, so that all of a column have the same.
export function inUnit(count, [size]) {
  if (count === null) return "-";
  const value = count / size;
  if (value > 0 && value < 0.01) return "< 0.01";
  return value.toLocaleString("en", value < 10 ? { maximumFractionDigits: 2 } : { maximumFractionDigits: 1 });
}

export function secondsText(seconds) {
  const short = (value) => Number(value.toPrecision(3)).toString();
  if (seconds === 0) return "0 s";
  if (seconds < 1e-3) return `${short(1e6 * seconds)} \u00b5s`;
  if (seconds < 0.1) return `${short(1e3 * seconds)} ms`;
  if (seconds < 120) return `${short(seconds)} s`;
  if (seconds < 7200) return `${short(seconds / 60)} min`;
  if (seconds < 172800) return `${short(seconds / 3600)} hours`;
  return `${short(seconds / 86400)} days`;
}

// When something was: the time, and the date too where that was not today.
export function whenText(seconds) {
  const then = new Date(1000 * seconds);
  const time = then.toLocaleTimeString("en", { hourCycle: "h23" });
  if (then.toDateString() === new Date().toDateString()) return time;
  return `${dateText(seconds)} ${time}`;
}

export function dateText(seconds) {
  const then = new Date(1000 * seconds);
  const two = (number) => String(number).padStart(2, "0");
  return `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())}`;
}

// Whether an unfinished run goes on, by when its last round came.
const ALIVE_SECONDS = 60;
const ALIVE_ROUNDS = 5;

export function goesOn(pace) {
  const age = Date.now() / 1000 - pace.last;
  return age < Math.max(ALIVE_SECONDS, ALIVE_ROUNDS * pace.usual);
}

export function agoText(seconds) {
  const age = Math.max(0, Date.now() / 1000 - seconds);
  if (age < 10) return "a moment ago";
  if (age < 120) return `${Math.round(age / 10) * 10} s ago`;
  if (age < 7200) return `${Math.round(age / 60)} min ago`;
  if (age < 172800) return `${Math.round(age / 3600)} hours ago`;
  return `${Math.round(age / 86400)} days ago`;
}

// Who has a number for a name needs a noun before it.
export function called(name, noun = "client") {
  return /^\d+$/.test(name) ? `${noun} ${name}` : name;
}

export function countText(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function shortened(text, most = MOST_LETTERS) {
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

// All of these names, the last after "and".
export function joined(names) {
  if (names.length < 2) return names.join("");
  return `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`;
}

// What is said first of many names.
export function listed(names, most = 6) {
  const shown = names.slice(0, most).join(", ");
  if (names.length > most) return `${shown} and ${names.length - most} more`;
  return shown;
}
