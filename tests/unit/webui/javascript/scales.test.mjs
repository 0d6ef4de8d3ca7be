// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { linearRange, logRange, logSplits } from "../../../../webui/static/js/pure/scales.js";

test("linearRange: from 0, with room above the highest value", () => {
  const [low, high] = linearRange(50, 0);
  assert.equal(low, 0);
  assert.ok(high > 50 && high < 60);
});

test("linearRange: reaches the floor, and is never empty", () => {
  assert.ok(linearRange(0.01, 0.05)[1] >= 0.05);
  assert.deepEqual(linearRange(null, 0), [0, 1]);
  assert.deepEqual(linearRange(0, 0), [0, 1]);
});

test("logRange: holds the values and at least a factor of four", () => {
  for (const [low, high] of [
    [10, 10],
    [10, 20],
    [1, 1e6],
  ]) {
    const [from, to] = logRange(low, high);
    assert.ok(from < low && to > high);
    assert.ok(to >= 4 * from);
  }
});

test("logRange: without values that a logarithmic axis can show", () => {
  for (const range of [logRange(null, null), logRange(0, 5), logRange(-1, 5)]) assert.ok(range[0] > 0);
});

test("logSplits: 1-2-5 over a decade, 1-3 over two, powers of ten over more", () => {
  assert.deepEqual(logSplits(10, 100), [10, 20, 50, 100]);
  assert.deepEqual(logSplits(10, 1_000), [10, 30, 100, 300, 1_000]);
  assert.deepEqual(logSplits(10, 1e5), [10, 100, 1_000, 10_000, 1e5]);
});
