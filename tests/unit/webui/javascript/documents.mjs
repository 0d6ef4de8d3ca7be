// SPDX-License-Identifier: Apache-2.0
// Documents as the server sends them, for the tests. Each call makes a new one.

/** @import { DistributionsModel, FctSeriesModel } from "../../../../webui/static/js/documents.gen.js" */
/** @import { PolicyVersionModel, PortLoadModel } from "../../../../webui/static/js/documents.gen.js" */
/** @import { RateModel, SchemeModel, SnapshotModel } from "../../../../webui/static/js/documents.gen.js" */
/** @import { ThresholdModel, TopologyModel } from "../../../../webui/static/js/documents.gen.js" */
/** @import { TrafficModel } from "../../../../webui/static/js/documents.gen.js" */

export const NOW = 1_700_000_000;

/**
 * @param {Partial<SchemeModel>} different
 * @returns {SchemeModel}
 */
export function scheme(different = {}) {
  return {
    name: "pias",
    title: "PIAS",
    paper: "Bai et al., NSDI 2015",
    congestion_control: "sluice_dctcp",
    threshold_rule: "static",
    queue_rule: "mlfq",
    marking: "port",
    queues: 3,
    thresholds_bytes: [20_000, 1_000_000],
    marks_bytes: [97_500],
    tags_deadlines: false,
    tags_sizes: false,
    colour: "#ccbb44",
    refused: null,
    fields: [],
    ...different,
  };
}

export const SCHEMES = [
  scheme(),
  scheme({
    name: "tcp",
    title: "TCP",
    threshold_rule: "none",
    marking: "none",
    queues: 1,
    thresholds_bytes: [],
  }),
  scheme({ name: "hull", threshold_rule: "none", marking: "phantom", queues: 1, marks_bytes: [6_000] }),
  scheme({
    name: "datcp",
    threshold_rule: "none",
    marking: "red",
    queues: 1,
    marks_bytes: [80_000, 120_000],
  }),
  scheme({ name: "adaptive", title: "Adaptive", threshold_rule: "percentile" }),
  scheme({ name: "sluice", title: "Sluice", threshold_rule: "online" }),
];

/**
 * @param {Partial<PolicyVersionModel>} different
 * @returns {PolicyVersionModel}
 */
export function policyVersion(different = {}, name = "pias") {
  const { queues, thresholds_bytes, marks_bytes } = SCHEMES.find((known) => known.name === name) ?? scheme();
  return {
    version: 1,
    policy: {
      scheme: name,
      queues,
      most_threshold: null,
      thresholds: thresholds_bytes,
      percentiles: [],
      window_ms: 500,
      interval_ms: 100,
      min_flows: 5,
      robust_ends: true,
      mark_at: marks_bytes[0] ?? null,
      mark_at_core: null,
      mark_min: null,
      mark_max: null,
      mark_chance: null,
      buffer: 300_000,
      mark_by: "port",
      last_mark_factor: 1,
      least_threshold: null,
      growth: 1,
      parameters: null,
      urgent_first: true,
      shares: null,
      throughput_factors: [],
      epoch: null,
      flow_queues: false,
      sub_queues: null,
      release: null,
      urgent_after: null,
      urgent_share: null,
      host_queues: true,
      host_thresholds: null,
      demoted_share: null,
      untagged_queue: 0,
      idle_gap_ms: 10,
      tag_burst: 1_460,
      reserved_dscp: [],
      reserved_queue: 0,
      overrides: [],
      acts_at: ["*"],
      acts_on: ["*"],
    },
    author: "test",
    created_at: NOW - 100,
    applied_at: NOW - 99.5,
    state: "applied",
    ...different,
  };
}

/**
 * `leaves` switches s1 … with `hosts` hosts each, all of them linked to `spines` more switches.
 * @returns {TopologyModel}
 */
export function topology({ leaves = 2, spines = 1, hosts = 2 } = {}) {
  const port = {
    peer_port: 0,
    rate_bps: 10_000_000,
    delay_ns: 0,
    name: "",
    up: true,
    uplink: false,
    managed: true,
    vlans: null,
    bond: "",
  };
  const ports = [];
  for (let leaf = 1; leaf <= leaves; leaf++) {
    for (let i = 1; i <= hosts; i++) {
      ports.push({ ...port, switch: `s${leaf}`, number: i, peer: `h${(leaf - 1) * hosts + i}`, edge: true });
    }
    for (let i = 1; i <= spines; i++) {
      const spine = `s${leaves + i}`;
      ports.push({ ...port, switch: `s${leaf}`, number: hosts + i, peer: spine, edge: false });
      ports.push({ ...port, switch: spine, number: leaf, peer: `s${leaf}`, edge: false });
    }
  }
  const counted = (/** @type {number} */ n) => Array.from({ length: n }, (_, i) => i + 1);
  return {
    kind: "leaf-spine",
    parameters: { leaves, spines },
    hosts: counted(leaves * hosts).map((i) => ({
      name: `h${i}`,
      mac: "",
      ipv4: "",
      ipv6: "",
      port: "",
      vlan: 0,
    })),
    switches: counted(leaves + spines).map((i) => ({
      name: `s${i}`,
      dpid: i,
      priority_tags: true,
      first_table: 0,
      forwards: true,
      agent: "",
    })),
    ports,
    unknown: "drop",
    learns: false,
  };
}

/** @type {(at: number, port: string, thresholds_bytes: number[]) => ThresholdModel} */
export const change = (at, port, thresholds_bytes) => ({
  at,
  port,
  policy_version: 1,
  thresholds_bytes,
  flows: 9,
});

/** @type {(at: number, queue_rates_bps: number[]) => RateModel} */
export const portRate = (at, queue_rates_bps) => ({ at, rate_bps: 1, queue_rates_bps });

/** @type {(at: number, queue_rates_bps: number[] | null) => PortLoadModel} */
export const portState = (at, queue_rates_bps) => ({
  at,
  capacity_bps: 10_000_000,
  rate_bps: queue_rates_bps?.reduce((sum, bps) => sum + bps, 0) ?? null,
  queue_rates_bps,
  load: queue_rates_bps && 0.5,
});

/**
 * Each bin holds one flow of each class; the mean of bin i is `means[i]`, its p99 twice that.
 * @type {(at: number[], means: (number | null)[]) => FctSeriesModel}
 */
export function fctSeries(at, means) {
  const n = means.map((mean) => (mean === null ? 0 : 1));
  const p99 = means.map((mean) => (mean === null ? null : 2 * mean));
  const series = { n, mean: means, p50: means, p95: p99, p99 };
  return { at, all: series, small: series, medium: series, large: series };
}

/** @type {(mean: number | null) => DistributionsModel} */
export function fctByClass(mean) {
  const one = { n: mean === null ? 0 : 7, mean, p50: mean, p95: mean, p99: mean && 3 * mean };
  return { all: one, small: one, medium: one, large: one };
}

/** @returns {TrafficModel} */
export function traffic() {
  return {
    fct: {
      window_s: 30,
      flows_per_s: 60.53,
      classes: fctByClass(12_840),
      slowdown: fctByClass(4.2),
      bin_s: 2,
      series: fctSeries([], []),
    },
    deadlines: {
      n: 638,
      missed: 133,
      miss_ratio: 0.209,
      bin_s: 2,
      series: { at: [], n: [], missed: [], miss_ratio: [] },
    },
  };
}

/**
 * @param {Partial<SnapshotModel>} different
 * @returns {SnapshotModel}
 */
export function snapshot(different = {}) {
  return {
    at: NOW,
    health: {
      status: "ok",
      at: NOW,
      store: { reachable: true, kind: "sqlite" },
      versions: { sluice: "0.1.0", policy: 1 },
      fabric: "testbed",
      dilation: null,
      controller: { alive: true, age_s: 0.3, connected: 0, expected: 0, switches: [] },
      agents: [],
      problems: [],
    },
    policy: policyVersion(),
    thresholds: {},
    ports: {},
    connections: { living: [], ended: [], lost: 0 },
    sanctions: [],
    validity: { valid: true, reasons: [], note: "" },
    traffic: { scheduled: traffic(), watched: traffic(), all: traffic() },
    ...different,
  };
}
