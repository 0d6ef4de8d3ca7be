// SPDX-License-Identifier: Apache-2.0
// The live stream of snapshots and events.

/** @import { NetworkEvent, Snapshot } from "./types.js" */

/** @typedef {"connecting" | "live" | "stale"} LiveState */

/**
 * @typedef {object} Handlers
 * @property {(snapshot: Snapshot) => void} snapshot
 * @property {(event: NetworkEvent) => void} event
 * @property {(state: LiveState, lastMs: number | null) => void} state
 *   `lastMs`: when the last snapshot came, in milliseconds since the epoch.
 * @property {() => void} resumed  Called after a break, because history may have a gap.
 */

const STALE_AFTER_MS = 4000;
const CHECK_MS = 500;
const RETRY_MS = 1000;

/** @param {Handlers} handlers */
export function startLive(handlers) {
  /** @type {number | null} */
  let lastMs = null;
  /** @type {LiveState} */
  let state = "connecting";

  /** @param {LiveState} next */
  function become(next) {
    if (next === state && next !== "stale") return;
    const before = state;
    state = next;
    handlers.state(next, lastMs);
    if (next === "live" && before === "stale") handlers.resumed();
  }

  function connect() {
    const source = new EventSource("/api/v1/events");
    source.addEventListener("snapshot", (message) => {
      lastMs = Date.now();
      become("live");
      handlers.snapshot(JSON.parse(message.data));
    });
    source.addEventListener("event", (message) => handlers.event(JSON.parse(message.data)));
    source.addEventListener("error", () => {
      // A browser retries a broken stream by itself. It does not retry an answer that is no event
      // stream, for example a proxy's error page while the server starts.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, RETRY_MS);
    });
  }

  setInterval(() => {
    if (lastMs !== null && Date.now() - lastMs > STALE_AFTER_MS) become("stale");
  }, CHECK_MS);
  connect();
}
