// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import { test } from "node:test";
import { changeRows, previewTitle } from "../../../../webui/static/js/pure/preview.js";

const FIELD = { title: "", allowed: "", low: null, high: null, options: null, default: null, help: "" };
/** @type {import("../../../../webui/static/js/documents.gen.js").FieldModel[]} */
const FIELDS = [
  { ...FIELD, name: "queues", kind: "integer", unit: "" },
  { ...FIELD, name: "window_ms", kind: "integer", unit: "ms" },
  { ...FIELD, name: "thresholds", kind: "list of size", unit: "bytes" },
];
const CHANGE = { title: "Title", because: "a reason" };

test("changeRows: values as people write them, and the reason", () => {
  const rows = changeRows(
    [
      { ...CHANGE, field: "scheme", before: "tcp", after: "pias" },
      { ...CHANGE, field: "queues", before: 1, after: 8 },
      { ...CHANGE, field: "window_ms", before: 500, after: 5000 },
      { ...CHANGE, field: "thresholds", before: [], after: [10_000, 20_000] },
    ],
    FIELDS,
  );
  assert.deepEqual(
    rows.map(({ field, before, after }) => [field, before, after]),
    [
      ["queues", "1", "8"],
      ["window_ms", "500 ms", "5000 ms"],
      ["thresholds", "–", "10 KB, 20 KB"],
    ],
  );
  assert.equal(rows[0].because, "a reason");
});

test("previewTitle: how many values change", () => {
  assert.match(previewTitle(0), /Nothing else/);
  assert.match(previewTitle(1), /one value$/);
  assert.match(previewTitle(3), /3 values$/);
});
