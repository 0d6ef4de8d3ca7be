// SPDX-License-Identifier: Apache-2.0
// Every document that the server sends to the dashboard. A test compares these types with the documents of a
// real server, so a key that only one side knows fails.
//
// Times are seconds since the epoch unless the name ends in a unit; a port is named "s1:2".

// ---- GET /api/v1/schemes

export interface SchemesAnswer {
  schemes: Scheme[];
}

export interface Scheme {
  name: string;
  title: string;
  paper: string;
  congestion_control: string;
  threshold_rule: "none" | "static" | "percentile" | "online";
  queue_rule: string;
  marking: "none" | "port" | "red" | "phantom";
  queues: number;
  thresholds_bytes: number[];
  marks_bytes: number[];
  tags_deadlines: boolean;
  tags_sizes: boolean;
  colour: string;
  /** Why this network cannot carry out the scheme; null if it can. */
  refused: string | null;
  /** The policy fields that the scheme uses. */
  fields: PolicyField[];
}

/** One field of the policy, from which its form is built. */
export interface PolicyField {
  /** The key in the policy document. */
  name: string;
  title: string;
  kind: FieldKind;
  /** Empty if the value has none. */
  unit: string;
  /** What is allowed, in words. */
  allowed: string;
  /** Bounds in `unit`; null if the kind has none. */
  low: number | null;
  high: number | null;
  /** The words of a choice; null for other kinds. */
  options: string[] | null;
  /** Null if the field is off by default. */
  default: FieldValue | null;
  help: string;
}

export type FieldKind =
  | "integer"
  | "number"
  | "size"
  | "duration"
  | "boolean"
  | "choice"
  | "list of integer"
  | "list of number"
  | "list of size"
  | "list of text"
  | "list of override";

/** Sizes are bytes, durations nanoseconds. */
export type FieldValue = number | boolean | string | number[] | string[] | Override[];

// ---- GET /api/v1/topology

export interface TopologyAnswer {
  topology: Topology | null;
}

export interface Topology {
  kind: string;
  parameters: Record<string, number | string>;
  /** `port` is empty if the port's `peer` names the host. */
  hosts: { name: string; mac: string; ipv4: string; ipv6: string; port: string }[];
  switches: TopologySwitch[];
  ports: TopologyPort[];
  /** What switches do with packets to an unknown address. */
  unknown: "drop" | "flood" | "normal";
  /** The network exists already: its switches report links and hosts. */
  learns: boolean;
}

export interface TopologySwitch {
  name: string;
  dpid: number;
  priority_tags: boolean;
  /** The first table of Sluice. With 0, the whole switch is Sluice's. */
  first_table: number;
}

export interface TopologyPort {
  switch: string;
  number: number;
  peer: string;
  /** 0 if the peer is a host. */
  peer_port: number;
  rate_bps: number;
  delay_ns: number;
  /** True if the port leads to hosts. */
  edge: boolean;
  /** Of the interface; empty if it follows from the number. */
  name: string;
  /** The link works in both directions. */
  up: boolean;
  /** True if the port leads out of the network. */
  uplink: boolean;
  /** False if Sluice only forwards to the port. */
  managed: boolean;
}

// ---- GET and PUT /api/v1/policy

export interface PolicyAnswer {
  current: PolicyVersion | null;
  /** The newest first. */
  history: PolicyVersion[];
}

export interface PolicyVersion {
  version: number;
  policy: Policy;
  author: string;
  created_at: number;
  applied_at: number | null;
  state: "applied" | "pending" | "superseded";
}

/** The answer to a change. */
export interface ChangedPolicy extends PolicyVersion {
  /** Names of ports that the network does not have. */
  warnings: string[];
}

/** A field is null if the scheme does not use it. Sizes are bytes. */
export interface Policy {
  scheme: string;
  queues: number;
  most_threshold: number | null;
  thresholds: number[];
  percentiles: number[];
  window_ms: number;
  interval_ms: number;
  min_flows: number;
  robust_ends: boolean;
  mark_at: number | null;
  mark_at_core: number | null;
  mark_min: number | null;
  mark_max: number | null;
  buffer: number;
  mark_by: string | null;
  last_mark_factor: number | null;
  least_threshold: number | null;
  growth: number | null;
  urgent_first: boolean;
  shares: number[] | null;
  flow_queues: boolean;
  sub_queues: number | null;
  /** Nanoseconds. */
  release: number | null;
  urgent_after: number | null;
  urgent_share: number | null;
  host_queues: boolean;
  untagged_queue: number;
  idle_gap_ms: number;
  tag_burst: number | null;
  demoted_share: number | null;
  reserved_dscp: number[];
  reserved_queue: number;
  overrides: Override[];
  /** Ports at which the policy acts; empty if Sluice only watches. */
  acts_at: string[];
}

/** What is different at some ports. */
export type Override = { ports: string[] } & ({ thresholds: number[] } | { freeze: true });

/** The body of every refused request. */
export interface ErrorAnswer {
  error: ErrorDetail;
}

export interface ErrorDetail {
  code: string;
  problem: string;
  field: string | null;
  index: number | null;
}

// ---- GET /api/v1/classes

export interface ClassesAnswer {
  /** The limits without a scaled workload: the largest small flow and the largest medium one. */
  limits_bytes: [number, number];
  /** The flows of the last records; null if there is none of the class. */
  seen: Record<SizeClass, ClassSeen | null>;
}

export interface ClassSeen {
  n: number;
  least_bytes: number;
  most_bytes: number;
}

// ---- GET /api/v1/thresholds and /api/v1/ports

export interface ThresholdsAnswer {
  now: Record<string, ThresholdChange>;
  history: ThresholdChange[];
}

export interface ThresholdChange {
  at: number;
  port: string;
  policy_version: number;
  thresholds_bytes: number[];
  /** Flows from which the port computed the thresholds. */
  flows: number;
}

export interface PortsAnswer {
  now: Record<string, PortState & { queue_bytes: number[]; queue_packets: number[] }>;
  history: Record<string, PortRate[]>;
}

export interface PortRate {
  at: number;
  rate_bps: number;
  queue_rates_bps: number[];
}

/** Rates and load are null for a port without recent samples. */
export interface PortState {
  at: number;
  capacity_bps: number | null;
  rate_bps: number | null;
  queue_rates_bps: number[] | null;
  /** Rate over capacity, 0 to 1. */
  load: number | null;
}

// ---- GET /api/v1/fct and /api/v1/deadlines

export type SizeClass = "small" | "medium" | "large";

export interface FctAnswer {
  window_s: number;
  source: Source;
  flows_per_s: number;
  classes: FctByClass;
  slowdown: FctByClass;
  schemes: Record<string, FctByClass>;
  bin_s: number | null;
  series: FctSeries | null;
}

export type FctByClass = Record<SizeClass | "all", Distribution>;

/** Completion times in microseconds; null if no flow finished. */
export interface Distribution {
  n: number;
  mean: number | null;
  p50: number | null;
  p95: number | null;
  p99: number | null;
}

/** One value per bin; `at` holds the starts of the bins. */
export type FctSeries = { at: number[] } & Record<SizeClass | "all", DistributionSeries>;

export interface DistributionSeries {
  n: number[];
  mean: (number | null)[];
  p50: (number | null)[];
  p95: (number | null)[];
  p99: (number | null)[];
}

export interface DeadlinesAnswer extends DeadlineTotals {
  window_s: number;
  source: Source;
  bin_s: number | null;
  series: DeadlineSeries | null;
}

export interface DeadlineTotals {
  n: number;
  missed: number;
  miss_ratio: number | null;
}

export interface DeadlineSeries {
  at: number[];
  n: number[];
  missed: number[];
  miss_ratio: (number | null)[];
}

// ---- GET /api/v1/events: "snapshot" once a second, "event" as it happens

export interface Snapshot {
  at: number;
  health: Health;
  policy: PolicyVersion | null;
  thresholds: Record<string, ThresholdChange>;
  ports: Record<string, PortState>;
  connections: Connections;
  sanctions: Sanction[];
  validity: Validity;
  traffic: Record<Source, Traffic>;
}

export interface Validity {
  /** Null if nothing judges the network. */
  valid: boolean | null;
  reasons: Flaw[];
  /** Why nothing judges it; empty if something does. */
  note: string;
}

/** Why the figures show the machine and not the network. */
export interface Flaw {
  kind: "forwarded" | "late" | "lost" | "clock";
  where: string;
  problem: string;
  remedy: string;
}

/** Whose flows figures count: a run's schedule, other programs, or both. */
export type Source = "scheduled" | "watched" | "all";

export interface Traffic {
  fct: {
    window_s: number;
    flows_per_s: number;
    classes: FctByClass;
    slowdown: FctByClass;
    bin_s: number;
    series: FctSeries;
  };
  deadlines: DeadlineTotals & { bin_s: number; series: DeadlineSeries };
}

export interface Health {
  status: "ok" | "degraded";
  at: number;
  store: { reachable: boolean; kind: string };
  versions: { sluice: string; policy: number };
  fabric: "testbed" | "simulator";
  /** Seconds of the wall clock for each simulated second; null if the network is real. */
  dilation: number | null;
  controller: Controller;
  agents: Agent[];
  problems: Problem[];
}

/** Something that needs an operator. */
export interface Problem {
  kind: string;
  where: string;
  problem: string;
}

export interface Controller {
  alive: boolean;
  /** Null if the controller has written nothing yet. */
  age_s: number | null;
  connected: number;
  expected: number;
  switches: SwitchState[];
}

export interface SwitchState {
  dpid: number;
  name: string;
  connected: boolean;
  policy_version: number | null;
  age_s: number;
}

export type Agent = { name: string; alive: boolean; age_s: number } & (
  | { kind: "host"; status: HostStatus }
  | { kind: "port"; status: Record<string, unknown> }
  | { kind: "simulator"; status: Record<string, unknown> }
);

/** The heartbeat of a host's agent. The dashboard reads nothing else of it. */
export interface HostStatus {
  watch: {
    watching: boolean;
    problem: string;
    recorded: number;
    lost: number;
    living: number;
    connections: [];
  };
  [key: string]: unknown;
}

export interface Connections {
  living: LivingConnection[];
  ended: EndedConnection[];
  /** Connections that the hosts' watches missed. */
  lost: number;
}

export interface LivingConnection {
  id: string;
  src: string;
  src_port: number;
  dst: string;
  dst_port: number;
  bytes: number;
  rate_bps: number;
  started_at: number;
  deadline_at: number | null;
  retransmissions: number | null;
  congestion_control: string;
  srtt_us: number | null;
}

export interface EndedConnection {
  sequence: number;
  id: string;
  src: string;
  dst: string;
  bytes: number;
  size_class: SizeClass;
  started_at: number;
  fct_us: number | null;
  ideal_us: number | null;
  deadline_us: number | null;
  met: boolean | null;
  retransmissions: number | null;
  congestion_control: string;
  scheme: string;
  status: "finished" | "unfinished";
  reason: string;
  source: "watched";
  src_port: number | null;
  dst_port: number | null;
  lasted_us: number | null;
  timeouts: number | null;
  srtt_us: number | null;
  ack_wait_us: number | null;
  clock_error_us: number | null;
  label: string | null;
  received_at: number;
}

/** A host that is demoted because its tags were wrong. */
export interface Sanction {
  port: string;
  host: string;
  since: number;
  /** The flow that proved it. */
  flow: string;
  tag: number;
  sent_bytes: number;
  limit_bytes: number;
  duration_s: number;
  offences: number;
  /** The port is restored after this time without a new proof. */
  term_s: number;
  /** The most that the host may send; null without a limit. */
  rate_bps: number | null;
}

export interface NetworkEvent {
  id: number;
  at: number;
  kind: string;
  /** Keys depend on the kind. */
  document: Record<string, unknown>;
}
