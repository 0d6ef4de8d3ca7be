// SPDX-License-Identifier: Apache-2.0

/** @import { FieldModel, PolicyChange } from "../../../../webui/static/js/documents.gen.js" */

import assert from "node:assert/strict";
import test from "node:test";
import { canEnter, parse, placeholder, valueText } from "../../../../webui/static/js/pure/field-values.js";

/** @type {FieldModel} */
const WINDOW = {
  name: "window_ms",
  title: "Window",
  kind: "integer",
  unit: "ms",
  allowed: "a whole number from 10 to 3600000",
  low: 10,
  high: 3_600_000,
  options: null,
  default: 500,
  help: "Sliding window.",
};
/** @type {FieldModel} */
const MARK = {
  ...WINDOW,
  name: "mark_at",
  title: "Mark at",
  kind: "size",
  unit: "bytes",
  allowed: 'from 1B to 1GB, as in "360KB"',
  low: 1,
  high: 1e9,
  default: 97_500,
};

test("canEnter: what fits on a line and leaves a choice", () => {
  assert.ok(canEnter(WINDOW));
  assert.ok(canEnter({ ...WINDOW, low: null, high: null, allowed: "one of 2, 4", default: 2 }));
  assert.ok(!canEnter({ ...WINDOW, low: null, high: null, allowed: "1", default: 1 }));
  assert.ok(!canEnter({ ...WINDOW, low: 0, high: 0, default: 0 }));
  assert.ok(!canEnter({ ...WINDOW, kind: "list of override", low: null, high: null, default: [] }));
});

test("placeholder: the value in force before the default", () => {
  assert.equal(placeholder(MARK, { mark_at: 20_000 }), "20 KB");
  assert.equal(placeholder(MARK, { mark_at: null }), "97.5 KB");
  assert.equal(placeholder(MARK, null), "97.5 KB");
  assert.equal(placeholder({ ...MARK, default: null }, {}), "none");
});

/** @type {[FieldModel["kind"], PolicyChange["before"] | null, string][]} */
const TEXTS = [
  ["number", 0.25, "0.25"],
  ["size", 97_500, "97.5 KB"],
  ["duration", 1_500_000, "1.5 ms"],
  ["boolean", true, "yes"],
  ["boolean", false, "no"],
  ["choice", "queue", "queue"],
  ["list of number", [10, 0.9299999999999999], "10, 0.93"],
  ["list of size", [20_000, 1_000_000], "20 KB, 1 MB"],
  ["list of size", [], "none"],
  ["list of number", null, "none"],
  ["list of text", ["s1:2", "s2:*"], "s1:2, s2:*"],
  ["table", { gain: 2, target_us: 30 }, "gain = 2, target_us = 30"],
];

test("valueText: each kind", () => {
  for (const [kind, value, text] of TEXTS) assert.equal(valueText(kind, value), text);
});

/** @type {[FieldModel["kind"], string, unknown][]} */
const TYPED = [
  ["integer", "8", 8],
  ["integer", "eight", "eight"],
  ["number", "-0.5", -0.5],
  ["size", "1500", 1_500],
  ["size", "20 KB", "20KB"],
  ["size", "1.5", "1.5"],
  ["duration", "2 ms", "2ms"],
  ["boolean", "yes", true],
  ["boolean", "no", false],
  ["choice", "queue", "queue"],
  ["list of number", "10, 50,90", [10, 50, 90]],
  ["list of number", "10; x", [10, "x"]],
  ["list of size", "20 KB, 100000,", ["20KB", 100_000]],
  ["list of text", "s1:2, 7", ["s1:2", "7"]],
  ["list of text", "none", []],
  ["table", "gain = 2, target_us=x; cut", { gain: 2, target_us: "x", cut: "" }],
];

test("parse: each kind; what is no value stays text", () => {
  for (const [kind, text, value] of TYPED) assert.deepEqual(parse(kind, text), value, `${kind} ${text}`);
});
