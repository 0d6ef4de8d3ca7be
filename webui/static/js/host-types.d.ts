// SPDX-License-Identifier: Apache-2.0
// Documents about one host and about flows. A test compares them with the documents of a real server, as types.d.ts.

import type { Agent, DeadlineTotals, Distribution, EndedConnection, FctByClass, Sanction } from "./types.js";

// ---- GET /api/v1/flows

export interface FlowsAnswer {
  flows: FlowRecord[];
  /** Null if there are no older records. */
  next: number | null;
  /** When the oldest record that the page looked at arrived. */
  searched_to: number | null;
}

export interface FlowRecord extends Omit<EndedConnection, "source"> {
  source: "scheduled" | "watched" | "background";
}

// ---- GET /api/v1/flows/active

export interface ActiveFlowsAnswer {
  flows: ActiveFlow[];
}

export interface ActiveFlow {
  source: "scheduled" | "watched";
  id: string;
  src: string;
  src_port: number | null;
  dst: string;
  dst_port: number | null;
  label: string;
  /** Of a scheduled flow its size, null if it is endless; of another one what it has sent so far. */
  bytes: number | null;
  acked_bytes: number | null;
  rate_bps: number | null;
  started_at: number;
  deadline_at: number | null;
  retransmissions: number | null;
  congestion_control: string;
  srtt_us: number | null;
}

// ---- GET /api/v1/hosts/NAME

export interface HostAnswer {
  name: string;
  at: number;
  place: Place | null;
  agent: Agent | null;
  link: Link | null;
  active: ActiveFlow[];
  sent: Sent;
  ended: FlowRecord[];
  sanctions: Sanction[];
}

export interface Place {
  ipv4: string;
  ipv6: string;
  mac: string;
  port: string | null;
  rate_bps: number | null;
}

export interface Link {
  at: number;
  sent_bytes: number;
  received_bytes: number;
  dropped: number;
  waiting_bytes: number;
  sent_bps: number | null;
  received_bps: number | null;
  queues: { sent_bytes: number; dropped: number; waiting_bytes: number }[];
}

export interface Sent {
  window_s: number;
  flows: number;
  unfinished: number;
  fct: FctByClass;
  slowdown: FctByClass;
  srtt_us: Distribution;
  deadlines: DeadlineTotals;
  controls: Record<string, number>;
}

/** The parts of a host's heartbeat that the host view reads. */
export interface HostBeat {
  version: string;
  policy_version: number;
  congestion_control: string;
  default_congestion_control: string;
  fallback_reason: string;
  hook: boolean;
  hook_problem: string;
  tagger: boolean;
  realtime: boolean;
  controls_refused: number;
  flows_undeclared: number;
  flows_active: number;
  spool_depth: number;
  records_refused: number;
  records_dropped: number;
  disk_problem: string;
  link_queues: string;
  link_problem: string;
  watch: { watching: boolean; problem: string; living: number; lost: number; [key: string]: unknown };
}
