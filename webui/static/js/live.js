// SPDX-License-Identifier: Apache-2.0
// The live stream. Calls `handlers.snapshot`, `.event`, and `.state("live" | "stale" | "connecting", sinceMs)`;
// `.resumed` after a break, when history may have a hole.

const STALE_AFTER_MS = 4000;
const RETRY_MS = 1000;

export function startLive(handlers) {
  let source = null;
  let lastMs = null;
  let state = "connecting";

  function become(next) {
    if (next === state && next !== "stale") return;
    const before = state;
    state = next;
    handlers.state(next, lastMs);
    if (next === "live" && before === "stale") handlers.resumed();
  }

  function connect() {
    source = new EventSource("/api/v1/events");
    source.addEventListener("snapshot", (message) => {
      lastMs = Date.now();
      become("live");
      handlers.snapshot(JSON.parse(message.data));
    });
    source.addEventListener("event", (message) => handlers.event(JSON.parse(message.data)));
    source.addEventListener("error", () => {
      // A browser gives up for good when the answer is no event stream, as while a proxy or server starts.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS);
    });
  }

  setInterval(() => {
    if (lastMs !== null && Date.now() - lastMs > STALE_AFTER_MS) become("stale");
  }, 500);
  connect();
}
