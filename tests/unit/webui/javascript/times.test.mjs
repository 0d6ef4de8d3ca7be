// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { moment, rangeText, splitsBefore, tick } from "../../../../webui/static/js/pure/times.js";

const NOW = new Date(2026, 0, 31, 12, 30, 0).getTime() / 1000;

test("an absolute moment has its day unless it is today", () => {
  assert.equal(moment(NOW - 75, NOW, "absolute"), "12:28:45");
  assert.equal(moment(NOW - 86_400, NOW, "absolute"), "2026-01-30 12:30:00");
});

test("a relative moment says how long ago it is", () => {
  assert.equal(moment(NOW - 75, NOW, "relative"), "1 min ago");
  assert.equal(moment(NOW + 5, NOW, "relative"), "in 5 s");
});

test("ticks", () => {
  assert.equal(tick(NOW - 60, NOW, "absolute"), "12:29");
  assert.equal(tick(NOW - 75, NOW, "absolute"), "12:28:45");
  assert.equal(tick(NOW, NOW, "relative"), "now");
  assert.equal(tick(NOW - 30, NOW, "relative"), "−30 s");
  assert.equal(tick(NOW - 120, NOW, "relative"), "−2 min");
  assert.equal(tick(NOW - 90, NOW, "relative"), "−1 min 30 s");
});

test("a range", () => {
  assert.equal(rangeText({ from: NOW - 60, to: NOW }, NOW, "absolute"), "12:29:00 – 12:30:00");
});

test("relative ticks are whole steps before now", () => {
  assert.deepEqual(splitsBefore(NOW - 65, NOW - 10, NOW, 30), [NOW - 60, NOW - 30]);
  assert.deepEqual(splitsBefore(NOW - 60, NOW, NOW, 30), [NOW - 60, NOW - 30, NOW]);
});
