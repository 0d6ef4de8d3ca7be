// SPDX-License-Identifier: Apache-2.0
import assert from "node:assert/strict";
import test from "node:test";
import { fabricNote } from "../../../../webui/static/js/pure/fabric.js";

test("a real network has no label", () => {
  assert.equal(fabricNote({ fabric: "testbed", dilation: null }).text, "");
});

test("a simulated network says so, and how much slower than real time it is", () => {
  assert.equal(fabricNote({ fabric: "simulator", dilation: 1.02 }).text, "Simulated");
  assert.equal(fabricNote({ fabric: "simulator", dilation: 3.14 }).text, "Simulated, 3.1× slower");
});
