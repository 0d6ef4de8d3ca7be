// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { bytes, clock, digits, rate, time, timeParts } from "../../../../webui/static/js/pure/format.js";

process.env.TZ = "UTC";

test("digits: three significant digits, without zeros at the end", () => {
  const cases = [0.004, 1.504, 9.994, 9.996, 12.34, 99.96, 1234.5, -2.5];
  const texts = ["0", "1.5", "9.99", "10", "12.3", "100", "1235", "-2.5"];
  assert.deepEqual(cases.map(digits), texts);
});

test("time: microseconds in the largest unit that leaves at least 1", () => {
  assert.deepEqual([0, 0.5, 999, 1_000, 12_840, 1e6, 90e6].map(time), [
    "0 µs",
    "0.5 µs",
    "999 µs",
    "1 ms",
    "12.8 ms",
    "1 s",
    "90 s",
  ]);
  assert.deepEqual(timeParts(2_500), { text: "2.5", unit: "ms" });
});

test("bytes and rate: decimal prefixes", () => {
  assert.deepEqual([12, 97_500, 1.2e6, 3e9].map(bytes), ["12 B", "97.5 KB", "1.2 MB", "3 GB"]);
  assert.deepEqual([0, 5e3, 80e6, 40e9].map(rate), ["0 b/s", "5 kb/s", "80 Mb/s", "40 Gb/s"]);
});

test("clock: the local time of day, from midnight as 00", () => {
  assert.equal(clock(1_700_000_000), "22:13:20");
  assert.equal(clock(86_400), "00:00:00");
});
