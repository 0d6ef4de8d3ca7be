// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { naturally } from "../../../../webui/static/js/pure/order.js";

test("naturally: numbers inside names by their value", () => {
  const names = ["h10", "s2:1", "h2", "s1:10", "s1:9", "h1"];
  assert.deepEqual(names.sort(naturally), ["h1", "h2", "h10", "s1:9", "s1:10", "s2:1"]);
});
