// SPDX-License-Identifier: Apache-2.0
// The live stream of snapshots and events. A tab that is hidden closes it, because a browser opens six connections to a
// server at most, for all its tabs together. A tab that is shown again continues after the last event that it has.

/** @import { EventModel, SnapshotModel } from "./documents.gen.js" */

/** @typedef {"connecting" | "live" | "stale"} LiveState */

/**
 * @typedef {object} Handlers
 * @property {(snapshot: SnapshotModel) => void} snapshot
 * @property {(event: EventModel) => void} event
 * @property {(problem: string) => void} trouble  Called with the problem that keeps the server from sending a snapshot.
 * @property {(state: LiveState, lastMs: number) => void} state
 *   `lastMs`: when the last snapshot came, or the page was shown, in milliseconds since the epoch.
 * @property {() => void} resumed  Called after a break, because history may have a gap.
 */

const STALE_AFTER_MS = 4000;
const CHECK_MS = 500;
const RETRY_MS = 1000;

/** @param {Handlers} handlers */
export function startLive(handlers) {
  let lastMs = Date.now();
  let lastEventId = "";
  /** Whether the page has been shown since it was loaded, so that its history has no gap. */
  let isNew = true;
  /** @type {LiveState} */
  let state = "connecting";
  /** @type {EventSource | null} */
  let source = null;

  /** @param {LiveState} next */
  function become(next) {
    if (next === state && next !== "stale") return;
    state = next;
    handlers.state(next, lastMs);
    if (next !== "live") return;
    if (!isNew) handlers.resumed();
    isNew = false;
  }

  function connect() {
    if (document.hidden || source) return;
    const opened = new EventSource(`/api/v1/events${lastEventId && `?last_event_id=${lastEventId}`}`);
    source = opened;
    opened.addEventListener("snapshot", (message) => {
      lastMs = Date.now();
      become("live");
      handlers.snapshot(JSON.parse(message.data));
    });
    opened.addEventListener("event", (message) => {
      lastEventId = message.lastEventId;
      handlers.event(JSON.parse(message.data));
    });
    opened.addEventListener("trouble", (message) => handlers.trouble(JSON.parse(message.data).problem));
    opened.addEventListener("error", () => {
      // A browser retries a broken stream by itself. It does not retry an answer that is no event
      // stream, for example a proxy's error page while the server starts.
      if (opened.readyState !== EventSource.CLOSED) return;
      source = null;
      setTimeout(connect, RETRY_MS);
    });
  }

  document.addEventListener("visibilitychange", () => {
    lastMs = Date.now();
    isNew = false;
    source?.close();
    source = null;
    become("connecting");
    connect();
  });
  setInterval(() => {
    if (source && !isNew && Date.now() - lastMs > STALE_AFTER_MS) become("stale");
  }, CHECK_MS);
  connect();
}
