// What tells the page that files have changed. All tabs share one stream of the server: a browser opens
// only six connections to it, and each stream would take one.
import { LOST } from "./source.js";

const CHANNEL = "federico";

// Calls changed(names) with the runs and sites that are not as they were, or changed(null) after a gap in
// which nothing was heard; and say(text) with what a person should know about the connection.
export function follow(changed, say) {
  const tell = ({ kind, names }) => {
    if (kind === "lost") {
      say(LOST);
      return;
    }
    say(kind === "found" ? "Following" : `Updated ${new Date().toLocaleTimeString("en", { hourCycle: "h23" })}`);
    changed(kind === "found" ? null : names);
  };
  // Locks are for this machine, or for encrypted connections: elsewhere each tab listens for itself.
  if (!navigator.locks || !window.BroadcastChannel) {
    listen(tell);
    return;
  }
  const others = new BroadcastChannel(CHANNEL);
  others.onmessage = (event) => tell(event.data);
  // Of all tabs one has the lock and listens for all; when it is closed, the next one does.
  navigator.locks.request(CHANNEL, () => {
    listen((said) => {
      tell(said);
      others.postMessage(said);
    });
    return new Promise(() => {});
  });
}

function listen(tell) {
  const events = new EventSource("api/events");
  events.onopen = () => tell({ kind: "found" });
  events.onmessage = (event) => tell({ kind: "changed", names: JSON.parse(event.data) });
  // The browser connects again by itself, unless the server refuses it.
  events.onerror = () => tell({ kind: "lost" });
}
