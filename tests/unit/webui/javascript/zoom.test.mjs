// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { between, stepped } from "../../../../webui/static/js/pure/zoom.js";

const SHOWN = { from: 1000, to: 1100 };

test("zooming keeps the centre, and zooming back out gives the range again", () => {
  const near = stepped(SHOWN, "in", 5000);
  assert.deepEqual(near, { from: 1025, to: 1075 });
  assert.deepEqual(near && stepped(near, "out", 5000), SHOWN);
});

test("no range ends in the future or is too short or too long", () => {
  assert.deepEqual(stepped(SHOWN, "later", 1110), { from: 1010, to: 1110 });
  assert.deepEqual(stepped({ from: 1000, to: 1003 }, "in", 5000), { from: 1000.5, to: 1002.5 });
  const day = stepped({ from: 100_000, to: 180_000 }, "out", 1e9);
  assert.equal(day && day.to - day.from, 86_400);
});

test("holding keeps what is shown, and live follows the clock again", () => {
  assert.deepEqual(stepped(SHOWN, "hold", 1100), SHOWN);
  assert.equal(stepped(SHOWN, "live", 1100), null);
});

test("a drag in either direction is a range", () => {
  assert.deepEqual(between(1050, 1020, 5000), { from: 1020, to: 1050 });
  assert.deepEqual(between(1050, 1050, 5000), { from: 1049, to: 1051 });
});
