// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import {
  cells,
  hasResult,
  isUnderWay,
  partialRows,
  planText,
  progressText,
  stateText,
} from "../../../../webui/static/js/pure/runs.js";

process.env.TZ = "UTC";

const FIGURES = {
  classes: { small: { n: 3, mean_us: 420, p99_us: 1900 }, all: { n: 4, mean_us: 2000, p99_us: null } },
  deadlines: 8,
  missed: 2,
  unfinished: 0,
};
const RUN = /** @type {import("../../../../webui/static/js/documents.gen.js").RunModel} */ ({
  name: "mix/a",
  kind: "run",
  state: "done",
  reason: "",
  changed_at: 1_700_000_000,
  scenario: "paper-mix",
  schemes: ["pias"],
  on: "simulator",
  load: 0.8,
  by: null,
  own: false,
  progress: null,
  figures: FIGURES,
  valid: true,
  points: null,
  finished: null,
});
const PROGRESS = { share: 0.256, elapsed_s: 10, remaining_s: 200, recorded: 256, scheduled: 1000 };

test("progressText: share, flows and time left, as far as they are known", () => {
  const running = { ...RUN, state: /** @type {const} */ ("running") };
  assert.equal(progressText(running), "Starting…");
  assert.equal(progressText({ ...running, progress: PROGRESS }), "25 %, 256 of 1000 flows, about 3 min left");
  const sweep = {
    ...running,
    kind: /** @type {const} */ ("sweep"),
    progress: { ...PROGRESS, recorded: 3, scheduled: 12 },
  };
  assert.match(progressText(sweep), /^25 %, 3 of 12 points, /);
  const unknown = { ...PROGRESS, remaining_s: null };
  assert.match(progressText({ ...running, progress: unknown }), /time left still unknown$/);
  assert.match(progressText({ ...running, state: "ending" }), /^Ending/);
});

test("stateText: a result that is not valid is bad, a sweep counts its points", () => {
  assert.deepEqual(stateText(RUN), { text: "Done", tone: "good", title: "" });
  assert.equal(stateText({ ...RUN, valid: false }).tone, "bad");
  assert.equal(stateText({ ...RUN, state: "failed", reason: "no room" }).title, "no room");
  const sweep = { ...RUN, kind: /** @type {const} */ ("sweep"), points: 6, finished: 2 };
  const partial = stateText({
    ...sweep,
    state: "partial",
    reason: "1 of 6 points failed; pias/load-0.5: no room",
  });
  assert.equal(partial.text, "2 of 6 points");
  assert.match(partial.title, /no room$/);
});

test("cells and partialRows: figures in their units, a dash for what is missing", () => {
  assert.deepEqual(cells(RUN), [
    "pias",
    "simulator",
    "0.8",
    "4",
    "420 µs",
    "1.9 ms",
    "2 ms",
    "25 %",
    "2023-11-14 22:13",
  ]);
  assert.equal(cells({ ...RUN, figures: null, load: null })[2], "–");
  assert.deepEqual(partialRows(RUN)[1], ["All", "4", "2 ms", "–"]);
});

test("what can be chosen, and what is under way", () => {
  assert.equal(hasResult(RUN), true);
  assert.equal(hasResult({ ...RUN, state: "lost" }), false);
  assert.equal(hasResult({ ...RUN, kind: "sweep", finished: 0 }), false);
  assert.equal(isUnderWay(RUN), false);
  assert.equal(isUnderWay({ ...RUN, state: "ending" }), true);
});

test("planText: the length, and why it cannot start now", () => {
  const plan = {
    scenario: "x",
    scheme: "pias",
    points: null,
    on: "testbed",
    predicted_s: 30,
    asks: false,
    obstacle: "a testbed runs",
  };
  assert.equal(
    planText(plan),
    "Valid. It runs pias and takes about 30 s. It cannot start now: a testbed runs.",
  );
  const sweep = { ...plan, points: 6, scheme: "dctcp, pias", obstacle: null };
  assert.equal(planText(sweep), "Valid. It runs 6 points (dctcp, pias) and takes about 30 s.");
  assert.match(planText({ ...plan, predicted_s: null, obstacle: null }), /an unknown time\.$/);
});
