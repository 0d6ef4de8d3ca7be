// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { held, median, stacked } from "../../../../webui/static/js/pure/series.js";

test("stacked: the last layer lies at the bottom, each other one on top of those after it", () => {
  const layers = [1, 20, 300].map((value) => ({ values: [value, value], show: true }));
  assert.deepEqual(stacked(layers), [
    [321, 321],
    [320, 320],
    [300, 300],
  ]);
});

test("stacked: a hidden layer has no height, a gap stays a gap", () => {
  const layers = [
    { values: [1, null], show: true },
    { values: [20, 20], show: false },
    { values: [300, null], show: true },
  ];
  assert.deepEqual(stacked(layers), [
    [301, null],
    [300, 0],
    [300, null],
  ]);
});

test("held: each value lasts until the next change", () => {
  const changes = [
    { at: 2, bytes: 10 },
    { at: 4, bytes: 30 },
  ];
  const values = held(changes, [1, 2, 3, 4, 9], (row) => row.bytes);
  assert.deepEqual(values, [null, 10, 10, 30, 30]);
});

test("median: of the known values, the lower of two", () => {
  assert.equal(median([3, null, 1, 2]), 2);
  assert.equal(median([10, 9, 100, 2]), 9);
  assert.equal(median([null]), null);
});
