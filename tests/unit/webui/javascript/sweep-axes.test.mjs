// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { numbers, words } from "../../../../webui/static/js/pure/sweep-axes.js";

test("words: between commas or spaces; nothing is undefined", () => {
  assert.deepEqual(words(" dctcp, pias  pias-10KB,"), ["dctcp", "pias", "pias-10KB"]);
  assert.equal(words(" , "), undefined);
});

test("numbers: a word that is no number stays, for the server to name", () => {
  assert.deepEqual(numbers("0.5 0.8,9"), [0.5, 0.8, 9]);
  assert.deepEqual(numbers("0.5 much"), [0.5, "much"]);
  assert.equal(numbers(""), undefined);
});

test("numbers: a seed that JavaScript would round is sent as it was written", () => {
  assert.deepEqual(numbers("9007199254740993 Infinity 7"), ["9007199254740993", "Infinity", 7]);
});
