// SPDX-License-Identifier: Apache-2.0

/** @import { FlowModel, LivingConnectionModel } from "../../../../webui/static/js/documents.gen.js" */

import assert from "node:assert/strict";
import test from "node:test";
import { connectionRows } from "../../../../webui/static/js/pure/connections.js";

/** @type {LivingConnectionModel} */
const LIVING = {
  id: "watched/1",
  src: "h3",
  src_port: 40_000,
  dst: "fd00::7",
  dst_port: 443,
  bytes: 5_000_000,
  rate_bps: 80_000_000,
  started_at: 1_000,
  deadline_at: null,
  retransmissions: 3,
  congestion_control: "cubic",
  srtt_us: 250,
  label: "",
};
/** @type {FlowModel} */
const ENDED = {
  sequence: 1,
  id: "watched/2",
  src: "h3",
  dst: "h4",
  bytes: 10_000_000,
  size_class: "medium",
  started_at: 900,
  fct_us: 1e6,
  ideal_us: null,
  deadline_us: 5e5,
  met: false,
  retransmissions: null,
  congestion_control: "cubic",
  scheme: "pias",
  status: "finished",
  reason: "",
  source: "watched",
  src_port: 40_000,
  dst_port: null,
  lasted_us: 2e6,
  timeouts: null,
  srtt_us: null,
  ack_wait_us: null,
  clock_error_us: null,
  label: null,
  received_at: 999,
};

/**
 * @param {Partial<LivingConnectionModel>} different
 */
const living = (different) =>
  connectionRows({ living: [{ ...LIVING, ...different }], ended: [], lost: 0 }, 1_002)[0];
/**
 * @param {Partial<FlowModel>} different
 */
const ended = (different) =>
  connectionRows({ living: [], ended: [{ ...ENDED, ...different }], lost: 0 }, 1_002)[0];

test("connectionRows: an open connection, with its age and the address of IPv6 in brackets", () => {
  const cells = ["h3:40000", "[fd00::7]:443", "Open", "5 MB", "80 Mb/s", "2 s", "3", "250 µs", "cubic", ""];
  assert.deepEqual(living({}).cells, cells);
});

test("connectionRows: time left until the deadline, or that it has passed", () => {
  const [early, late] = [living({ deadline_at: 1_002.5 }), living({ deadline_at: 1_001 })];
  assert.deepEqual([early.cells.at(-1), early.late], ["In 500 ms", false]);
  assert.deepEqual([late.cells.at(-1), late.late], ["Passed", true]);
});

test("connectionRows: a finished connection has its completion time and its mean rate", () => {
  const row = ended({});
  const cells = ["h3:40000", "h4", "Finished", "10 MB", "80 Mb/s", "1 s", "", "", "cubic", "Missed"];
  assert.deepEqual(row.cells, cells);
  assert.ok(row.late);
});

test("connectionRows: an unfinished connection has its lifetime and the reason", () => {
  const row = ended({ status: "unfinished", fct_us: null, met: null, reason: "reset" });
  assert.deepEqual(row.cells.slice(2, 6), ["Unfinished", "10 MB", "40 Mb/s", "2 s"]);
  assert.deepEqual([row.state, row.late, row.reason, row.cells.at(-1)], ["unfinished", false, "reset", ""]);
});
