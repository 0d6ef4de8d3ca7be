// SPDX-License-Identifier: Apache-2.0

/** @import { FieldKind, FieldValue, PolicyField } from "../../../../webui/static/js/types.js" */

import assert from "node:assert/strict";
import test from "node:test";
import {
  applies,
  defaultOf,
  explanation,
  label,
  parse,
  placeholder,
  valueText,
} from "../../../../webui/static/js/pure/field-values.js";

/** @type {PolicyField} */
const WINDOW = {
  name: "window_ms",
  title: "Window",
  kind: "integer",
  low: 10,
  high: 3_600_000,
  unit: "ms",
  default: 500,
  help: "Time.",
  applies_to: null,
};
/** @type {PolicyField} */
const MARK = {
  ...WINDOW,
  name: "mark_at",
  title: "Marking threshold",
  kind: "size",
  low: 1,
  high: 1e9,
  unit: "bytes",
  default: { pias: 97_500, hull: 6_000 },
  applies_to: ["pias", "hull"],
};

test("label: with the unit of a plain number", () => {
  assert.equal(label(WINDOW), "Window, ms");
  assert.equal(label(MARK), "Marking threshold");
});

test("explanation: the help and the bounds", () => {
  assert.equal(explanation(WINDOW), "Time. From 10 to 3600000 ms.");
  assert.equal(explanation(MARK), "Time. From 1 B to 1 GB.");
  assert.equal(explanation({ ...MARK, kind: "list of sizes" }), "Time. From 1 B to 1 GB.");
  assert.equal(explanation({ ...WINDOW, kind: "boolean", low: null, high: null, unit: null }), "Time.");
});

test("applies: to the schemes that it names, or to all", () => {
  assert.deepEqual(
    ["pias", "tcp"].map((scheme) => applies(MARK, scheme)),
    [true, false],
  );
  assert.ok(applies(WINDOW, "tcp"));
});

test("defaultOf: one for all schemes, one for each, or none", () => {
  assert.equal(defaultOf(WINDOW, "tcp"), 500);
  assert.equal(defaultOf(MARK, "hull"), 6_000);
  assert.equal(defaultOf(MARK, "tcp"), null);
  assert.equal(defaultOf({ ...WINDOW, default: null }, "tcp"), null);
  assert.deepEqual(defaultOf({ ...WINDOW, default: [1, 2] }, "tcp"), [1, 2]);
  assert.equal(defaultOf({ ...WINDOW, default: false }, "tcp"), false);
});

test("placeholder: the value in force before the default", () => {
  assert.equal(placeholder(MARK, "pias", { mark_at: 20_000 }), "20 KB");
  assert.equal(placeholder(MARK, "pias", { mark_at: null }), "97.5 KB");
  assert.equal(placeholder(MARK, "pias", null), "97.5 KB");
  assert.equal(placeholder({ ...MARK, default: null }, "pias", null), "");
});

/** @type {[FieldKind, FieldValue, string][]} */
const TEXTS = [
  ["integer", 500, "500"],
  ["number", 0.25, "0.25"],
  ["size", 97_500, "97.5 KB"],
  ["duration", 1_500_000, "1.5 ms"],
  ["boolean", true, "yes"],
  ["boolean", false, "no"],
  ["list of numbers", [10, 99.5], "10, 99.5"],
  ["list of sizes", [20_000, 1_000_000], "20 KB, 1 MB"],
  ["list of sizes", [], "none"],
];

test("valueText: each kind", () => {
  for (const [kind, value, text] of TEXTS) assert.equal(valueText(kind, value), text);
});

/** @type {[FieldKind, string, unknown][]} */
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
  ["list of numbers", "10, 50,90", [10, 50, 90]],
  ["list of numbers", "10; x", [10, "x"]],
  ["list of sizes", "20 KB, 100000,", ["20KB", 100_000]],
];

test("parse: each kind; what is no value stays text", () => {
  for (const [kind, text, value] of TYPED) assert.deepEqual(parse(kind, text), value, `${kind} ${text}`);
});
