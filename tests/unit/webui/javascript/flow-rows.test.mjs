// SPDX-License-Identifier: Apache-2.0

/** @import { ActiveFlowModel, FlowModel } from "../../../../webui/static/js/documents.gen.js" */

import assert from "node:assert/strict";
import test from "node:test";
import { NO_FILTER } from "../../../../webui/static/js/pure/address.js";
import { activeRow, endedRow, passes, sorted } from "../../../../webui/static/js/pure/flow-rows.js";

const NOW = 1_700_000_000;
/** @type {FlowModel} */
const ENDED = {
  sequence: 7,
  id: "run/7",
  src: "h1",
  dst: "h10",
  bytes: 20_000,
  size_class: "small",
  started_at: NOW - 60,
  fct_us: 4000,
  ideal_us: 2000,
  deadline_us: 3000,
  met: false,
  retransmissions: 2,
  congestion_control: "cubic",
  scheme: "pias",
  status: "finished",
  reason: "",
  source: "watched",
  src_port: 1,
  dst_port: 2,
  lasted_us: null,
  timeouts: 0,
  srtt_us: 250,
  ack_wait_us: null,
  clock_error_us: null,
  label: null,
  received_at: NOW - 59,
};
/** @type {ActiveFlowModel} */
const ACTIVE = {
  source: "scheduled",
  id: "run/8",
  src: "h2",
  src_port: null,
  dst: "h1",
  dst_port: null,
  label: "shuffle",
  bytes: 50_000,
  acked_bytes: 20_000,
  rate_bps: null,
  started_at: NOW - 2,
  deadline_at: NOW + 0.5,
  retransmissions: null,
  congestion_control: "sluice_dctcp",
  srtt_us: null,
};

test("an ended flow", () => {
  const row = endedRow(ENDED, NOW, "relative");
  const text = Object.fromEntries(Object.entries(row.cells).map(([column, cell]) => [column, cell.text]));
  assert.deepEqual(text, {
    started: "1 min ago",
    src: "h1",
    dst: "h10",
    size_class: "small",
    bytes: "20 KB",
    fct: "4 ms",
    slowdown: "2 ×",
    deadline: "Missed, 3 ms",
    srtt: "250 µs",
    retransmissions: "2",
    control: "cubic",
    scheme: "pias",
    status: "Finished",
    source: "Own",
    label: "",
  });
  assert.equal(row.late, true);
});

test("an unfinished flow says why, and how long it lived if that is known", () => {
  const reason = "connection refused";
  const lost = endedRow(
    { ...ENDED, status: "unfinished", fct_us: null, lasted_us: 7000, reason },
    NOW,
    "absolute",
  );
  assert.deepEqual([lost.state, lost.note, lost.cells.fct.text], ["unfinished", reason, "7 ms"]);
  assert.equal(lost.cells.slowdown.value, null);
});

test("a flow under way", () => {
  const row = activeRow(ACTIVE, NOW, "relative");
  assert.deepEqual([row.state, row.late], ["active", false]);
  assert.equal(row.cells.deadline.text, "In 500 ms");
  assert.equal(row.cells.fct.text, "2 s");
  assert.equal(row.note, "20 KB of 50 KB acknowledged");
  assert.equal(activeRow({ ...ACTIVE, rate_bps: 8e6 }, NOW, "relative").note, "8 Mb/s");
  assert.equal(activeRow({ ...ACTIVE, bytes: null }, NOW, "relative").note, "20 KB acknowledged");
  assert.equal(activeRow({ ...ACTIVE, deadline_at: NOW - 1 }, NOW, "relative").cells.deadline.text, "Passed");
});

test("numbers sort by size, names naturally, and what is unknown comes last in both directions", () => {
  const rows = [
    endedRow({ ...ENDED, id: "a", src: "h10", fct_us: 10_000 }, NOW, "absolute"),
    endedRow({ ...ENDED, id: "b", src: "h2", fct_us: null, status: "unfinished" }, NOW, "absolute"),
    endedRow({ ...ENDED, id: "c", src: "h1", fct_us: 9_000 }, NOW, "absolute"),
  ];
  /** @type {(column: string, descending: boolean) => string} */
  const order = (column, descending) =>
    sorted(rows, { column, descending })
      .map(({ id }) => id)
      .join("");
  assert.equal(order("fct", false), "cab");
  assert.equal(order("fct", true), "acb");
  assert.equal(order("src", false), "cba");
  assert.equal(order("src", true), "abc");
});

test("which flows under way pass a filter", () => {
  assert.ok(passes(ACTIVE, NO_FILTER));
  assert.ok(
    passes(ACTIVE, { ...NO_FILTER, host: "h1", label: "shuffle", status: "active", source: "scheduled" }),
  );
  for (const wrong of [
    { host: "h3" },
    { label: "other" },
    { status: "finished" },
    { source: "watched" },
    { met: "true" },
    { scheme: "pias" },
    { size_class: "small" },
  ])
    assert.ok(!passes(ACTIVE, { ...NO_FILTER, ...wrong }), JSON.stringify(wrong));
});
