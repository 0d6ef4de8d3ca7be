// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { Model } from "../../../../webui/static/js/pure/model.js";
import { fctView, missesView, queuesView, thresholdsView } from "../../../../webui/static/js/pure/views.js";
import { change, fctSeries, NOW, policyVersion, portRate, SCHEMES, snapshot } from "./documents.mjs";

const colour = (/** @type {string} */ name) => `the ${name}`;

function model(scheme = "pias") {
  const made = new Model();
  made.schemes = SCHEMES;
  made.snapshot = snapshot({ policy: policyVersion({ created_at: NOW - 200 }, scheme) });
  made.policies = [policyVersion({ created_at: NOW - 200, applied_at: NOW - 199 }, scheme)];
  return made;
}

test("frame: from shortly before the first policy until now, with each change in its scheme's colour", () => {
  const { from, to, marks } = fctView(model(), colour);
  assert.deepEqual([from, to], [NOW - 203, NOW]);
  assert.deepEqual(marks, [{ at: NOW - 199, scheme: "pias", label: "PIAS", colour: "#ccbb44" }]);
});

test("frame: never longer than the window, never shorter than a minute", () => {
  const shown = model();
  shown.windowS = 120;
  assert.equal(fctView(shown, colour).from, NOW - 120);
  shown.policies = [];
  assert.equal(fctView(shown, colour).from, NOW - 60);
});

test("fctView: mean and p99 of each class at the centre of its bin; 0 is no value", () => {
  const shown = model();
  shown.mergeFct(fctSeries([NOW - 2, NOW - 6, NOW - 4], [30, 10, 0]));
  const { x, series } = fctView(shown, colour);
  assert.deepEqual(x, [NOW - 5, NOW - 3, NOW - 1]);
  assert.deepEqual(
    series.map(({ label, group }) => [label, group]),
    [
      ["Small mean", "Small"],
      ["Small p99", "Small"],
      ["Medium mean", "Medium"],
      ["Medium p99", "Medium"],
      ["Large mean", "Large"],
      ["Large p99", "Large"],
    ],
  );
  assert.deepEqual(
    [series[0].values, series[1].values],
    [
      [10, null, 30],
      [20, null, 60],
    ],
  );
  assert.equal(series[2].colour, "the class-medium");
});

test("missesView: the share of each bin; a bin without deadlines is a gap", () => {
  const shown = model();
  shown.mergeMisses({ at: [NOW - 4, NOW - 2], n: [4, 0], missed: [1, 0], miss_ratio: [0.25, null] });
  const { x, series } = missesView(shown, colour);
  assert.deepEqual(
    [x, series[0].values],
    [
      [NOW - 3, NOW - 1],
      [0.25, null],
    ],
  );
});

test("thresholdsView: every threshold of one port, held until it changes", () => {
  const shown = model();
  shown.addThreshold(change(NOW - 150, "s1:1", [10, 100]));
  shown.addThreshold(change(NOW - 50, "s1:1", [20]));
  const { x, series } = thresholdsView(shown, "s1:1", colour);
  assert.deepEqual(
    series.map(({ label }) => label),
    ["Queue 0 to 1", "Queue 1 to 2"],
  );
  assert.deepEqual(new Set(series[0].values), new Set([null, 10, 20]));
  assert.deepEqual([series[0].values.at(-1), series[1].values.at(-1)], [20, null]);
  assert.ok(x.every((at, i) => i === 0 || at > x[i - 1]));
  assert.equal(x.at(-1), NOW);
});

test("thresholdsView: of many ports the lowest and the highest first threshold, and the median", () => {
  const shown = model();
  for (let port = 1; port <= 60; port++) {
    shown.addThreshold(change(NOW - 100, `s1:${port}`, [1000 * port, 900_000]));
  }
  shown.addThreshold(change(NOW - 20, "s1:60", [500]));
  const { series } = thresholdsView(shown, "", colour);
  assert.deepEqual(
    series.map(({ label }) => label),
    ["Lowest of 60 ports", "Highest of 60 ports", "Median, queue 0 to 1"],
  );
  assert.deepEqual(
    series.map(({ values }) => values.at(-1)),
    [500, 59_000, 29_000],
  );
  const earlier = series.map(({ values }) => values.find((value) => value !== null));
  assert.deepEqual(earlier, [1000, 60_000, 30_000]);
});

test("thresholdsView: says why a scheme has none", () => {
  assert.equal(thresholdsView(model("tcp"), "", colour).empty, "TCP has one queue and no thresholds.");
  assert.equal(thresholdsView(model("pias"), "", colour).empty, null);
  assert.deepEqual(thresholdsView(model("pias"), "", colour).series, []);
});

test("queuesView: also queues that carried traffic under an earlier policy", () => {
  const shown = model("tcp");
  shown.rates = [portRate(NOW - 1, [5, 0, 7, 0])];
  assert.deepEqual(
    queuesView(shown, colour).series.map(({ label }) => label),
    ["Queue 0", "Queue 1", "Queue 2"],
  );
  shown.showPort("s9:9");
  assert.equal(queuesView(shown, colour).series.length, 1);
});

test("a held range is what all charts show, with its marks and rates alone", () => {
  const shown = model();
  shown.held = { from: NOW - 150, to: NOW - 100 };
  shown.times = "relative";
  for (const view of [fctView, missesView])
    assert.deepEqual([view(shown, colour).from, view(shown, colour).to], [NOW - 150, NOW - 100]);
  assert.deepEqual(fctView(shown, colour).marks, []);
  assert.deepEqual(fctView(shown, colour).times, { now: NOW, kind: "relative" });
  shown.rates = [200, 120, 50].map((ago) => portRate(NOW - ago, [1]));
  assert.deepEqual(queuesView(shown, colour).x, [NOW - 120]);
  const { x } = thresholdsView(shown, "", colour);
  assert.deepEqual([x[0] > NOW - 150, x[x.length - 1]], [true, NOW - 100]);
});
