// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";

import { validityBanner } from "../../../../webui/static/js/pure/validity.js";

test("figures that are not valid have a banner with the reasons, but not with all of many", () => {
  const reason = {
    kind: /** @type {const} */ ("late"),
    where: "ports",
    problem: "it was busy",
    remedy: "wait",
  };
  assert.equal(validityBanner({ valid: true, reasons: [], note: "" }), null);
  assert.deepEqual(validityBanner({ valid: false, reasons: Array(5).fill(reason), note: "" }), {
    head: "What the page shows is not valid",
    text: "It was busy. It was busy. It was busy. And 2 more reasons. Wait.",
  });
});
