// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { figures, missesNote, policyNote, policyState } from "../../../../webui/static/js/pure/figures.js";
import { fctByClass, policyVersion, traffic } from "./documents.mjs";

process.env.TZ = "UTC";

const QUIET = {
  fct: { ...traffic().fct, flows_per_s: 0, classes: fctByClass(null), slowdown: fctByClass(null) },
  deadlines: { ...traffic().deadlines, n: 0, missed: 0, miss_ratio: null },
};

test("figures: value and unit apart", () => {
  assert.deepEqual(figures(traffic()), {
    flows: { text: "60.5", unit: "/s" },
    "small-mean": { text: "12.8", unit: "ms" },
    "small-p99": { text: "38.5", unit: "ms" },
    slowdown: { text: "4.2", unit: "×" },
    misses: { text: "20.9", unit: "%" },
  });
});

test("figures: a dash for what has not been measured", () => {
  const { flows, ...others } = figures(QUIET);
  assert.deepEqual(flows, { text: "0", unit: "/s" });
  for (const figure of Object.values(others)) assert.deepEqual(figure, { text: "–", unit: "" });
});

test("missesNote: how many of how many", () => {
  assert.equal(missesNote(traffic()), "133 of 638, last 30 s");
  assert.equal(missesNote(QUIET), "No deadline flows, last 30 s");
});

test("policyNote: the state, and since when it is in force", () => {
  assert.equal(policyNote(policyVersion({ applied_at: 1_700_000_000 })), "Version 1 applied 22:13:20");
  assert.equal(policyNote(policyVersion({ state: "pending", applied_at: null })), "Version 1 pending");
  assert.equal(policyState(policyVersion({ version: 7, state: "superseded" })), "Version 7 superseded");
});
