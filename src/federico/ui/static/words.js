// Numbers with their units and a sensible number of digits.

const MINUS = "\u2212";
const MOST_LETTERS = 14;
const UNITS = [[1e9, "GB"], [1e6, "MB"], [1e3, "kB"]];

export function figureText(value, metric, signed = false) {
  if (value === null || value === undefined) return "-";
  let text = Number(value.toPrecision(3)).toString();
  if (metric.percent) text = (100 * value).toFixed(1);
  if (signed && value > 0) text = `+${text}`;
  return text.replace("-", MINUS);
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
  return `${Math.round(100 * share)} %`;
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

export function secondsText(seconds) {
  if (seconds >= 120) return `${(seconds / 60).toFixed(1)} min`;
  return `${Number(seconds.toPrecision(3))} s`;
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

export function countText(count, noun) {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

export function shortened(text, most = MOST_LETTERS) {
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

// What is said first of many names.
export function listed(names, most = 6) {
  const shown = names.slice(0, most).join(", ");
  if (names.length > most) return `${shown} and ${names.length - most} more`;
  return shown;
}
