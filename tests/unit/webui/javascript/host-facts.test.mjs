// SPDX-License-Identifier: Apache-2.0

/** @import { HostAnswer, HostStatusModel } from "../../../../webui/static/js/documents.gen.js" */

import assert from "node:assert/strict";
import test from "node:test";
import { hostFacts } from "../../../../webui/static/js/pure/host-facts.js";
import { NOW, traffic } from "./documents.mjs";

// What the view reads of a heartbeat.
const BEAT = /** @type {HostStatusModel} */ (
  /** @type {unknown} */ ({
    version: "1.2.3",
    policy_version: 4,
    congestion_control: "sluice_dctcp",
    default_congestion_control: "cubic",
    fallback_reason: "",
    hook: true,
    hook_problem: "",
    tagger: true,
    realtime: false,
    controls_refused: 0,
    flows_undeclared: 0,
    flows_active: 2,
    spool_depth: 0,
    records_refused: 0,
    records_dropped: 0,
    disk_problem: "",
    link_queues: "prio",
    link_problem: "",
    watch: { watching: true, problem: "", recorded: 0, lost: 0, living: 1, connections: [] },
  })
);

/** @type {HostAnswer["active"][number]} */
const ACTIVE = {
  source: "scheduled",
  id: "run/1",
  src: "h1",
  src_port: null,
  dst: "h2",
  dst_port: null,
  label: "",
  bytes: 9,
  acked_bytes: 0,
  rate_bps: null,
  started_at: NOW - 1,
  deadline_at: NOW + 1,
  retransmissions: 0,
  congestion_control: "cubic",
  srtt_us: 300,
};

/**
 * @param {Partial<HostStatusModel>} beat
 * @param {Partial<HostAnswer>} different
 * @returns {HostAnswer}
 */
function host(beat = {}, different = {}) {
  const { classes, slowdown } = traffic().fct;
  const status = /** @type {any} */ ({ ...BEAT, ...beat });
  return {
    name: "h1",
    at: NOW,
    place: { ipv4: "10.0.0.1", ipv6: "", mac: "", port: "s1:1", rate_bps: 10_000_000 },
    agent: { name: "h1", kind: "host", alive: true, age_s: 0.4, status },
    link: null,
    active: [ACTIVE],
    sent: {
      window_s: 60,
      flows: 5,
      unfinished: 1,
      fct: classes,
      slowdown,
      srtt_us: { n: 2, mean: 300, p50: 250, p95: 350, p99: 400 },
      deadlines: { n: 4, missed: 1, miss_ratio: 0.25 },
      controls: { cubic: 5 },
    },
    ended: [],
    sanctions: [],
    ...different,
  };
}

/**
 * @param {HostAnswer} answer
 * @param {string} title
 */
function group(answer, title) {
  const facts = hostFacts(answer).find((found) => found.title === title)?.facts ?? [];
  return Object.fromEntries(facts.map(({ name, text }) => [name, text]));
}

test("what an agent cannot do stands out", () => {
  const broken = host({
    hook: false,
    hook_problem: "no cgroup",
    controls_refused: 3,
    records_dropped: 9,
    disk_problem: "full",
    fallback_reason: "no BPF",
  });
  const facts = hostFacts(broken).flatMap(({ facts }) => facts);
  const wrong = facts.filter(({ state }) => state === "bad").map(({ name }) => name);
  assert.deepEqual(wrong, ["Declarations", "Refused controls", "Lacks", "Lost", "Disk", "Missed"]);
  assert.equal(facts.find(({ name }) => name === "Declarations")?.note, "no cgroup");
});

test("deadlines: met, missed, under way and passed; flows of others to the host do not count", () => {
  const active = [
    ACTIVE,
    { ...ACTIVE, deadline_at: NOW - 1 },
    { ...ACTIVE, src: "h9" },
    { ...ACTIVE, deadline_at: null },
  ];
  assert.deepEqual(group(host({}, { active }), "Deadlines"), {
    "Met, last 1 min": "3",
    Missed: "1 (25 %)",
    "Under way": "1",
    "Passed, not ended": "1",
  });
  assert.equal(group(host({}, { active }), "Flows")["Round trip, active"], "300 µs median of 3");
});

test("the own link: rates, what waits, drops, and the queues that have carried something", () => {
  const link = {
    at: 1,
    sent_bytes: 1,
    received_bytes: 1,
    dropped: 4,
    waiting_bytes: 3000,
    sent_bps: 5_000_000,
    received_bps: null,
    queues: [
      { sent_bytes: 2000, dropped: 0, waiting_bytes: 0 },
      { sent_bytes: 0, dropped: 0, waiting_bytes: 0 },
      { sent_bytes: 9000, dropped: 4, waiting_bytes: 3000 },
    ],
  };
  assert.deepEqual(group(host({}, { link }), "Own link"), {
    Sending: "5 Mb/s (50 %)",
    Receiving: "–",
    Waiting: "3 KB",
    Dropped: "4 packets",
    Queues: "prio",
    "Queue 0": "2 KB, 0 B waiting",
    "Queue 2": "9 KB, 3 KB waiting, 4 dropped",
  });
  assert.equal(group(host({ link_queues: "" }, { link }), "Own link").Queues, "One");
  assert.deepEqual(group(host({ link_problem: "no tc" }), "Own link"), { Queues: "no tc" });
});
