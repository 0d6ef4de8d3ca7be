// SPDX-License-Identifier: Apache-2.0
// The documents about alerts and validity. A test compares them with a real server's, as those of types.d.ts.

// ---- GET /api/v1/alerts, and `alerts` of a snapshot

export interface AlertsAnswer {
  rules_from: "configuration" | "api";
  /** Firing ones first, then pending, resolved, ok. */
  alerts: Alert[];
  webhook: Webhook;
}

export type AlertState = "ok" | "pending" | "firing" | "resolved";

export interface Alert {
  /** Name of the rule. */
  alert: string;
  /** The agent; empty if the rule has a single alert. */
  subject: string;
  /** What the rule watches; null if the rule is gone. */
  figure: "deadline-misses" | "fct-p99" | "slowdown-p99" | "agent-down" | "not-valid" | null;
  state: AlertState;
  /** Begin of the state; null for ok. */
  since: number | null;
  /** Null before it has fired. */
  fired_at: number | null;
  value: number | null;
  flows: number | null;
  reason: string;
  remedy: string;
  /** What the rule means, in words. */
  condition: string;
}

export interface Webhook {
  /** Null without a webhook. */
  host: string | null;
  /** Messages that the receiver has not accepted yet. */
  waiting: number;
  problem: string;
}

// ---- GET and PUT /api/v1/alerts/rules

export interface AlertRulesAnswer {
  rules_from: "configuration" | "api";
  rules: AlertRule[];
}

export interface AlertRule {
  name: string;
  figure: "deadline-misses" | "fct-p99" | "slowdown-p99" | "agent-down" | "not-valid";
  limit: number | string | null;
  size_class: "all" | "small" | "medium" | "large";
  source: "scheduled" | "watched" | "all";
  window: string;
  for: string;
  least_flows: number;
}

// ---- `validity` of a snapshot

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
