// SPDX-License-Identifier: Apache-2.0
// The documents of the preview and of the scoreboard. A test compares them with a real server's, as those of types.d.ts.

import type { FieldValue, PolicyVersion } from "./types.js";

// ---- POST /api/v1/policy/preview

export interface PolicyPreview {
  policy: PolicyVersion["policy"];
  /** The version in force; null before the first policy. */
  against: number | null;
  changes: PolicyChange[];
}

export interface PolicyChange {
  field: string;
  title: string;
  before: FieldValue | object[] | null;
  after: FieldValue | object[] | null;
  /** Where the new value comes from, in words. */
  because: string;
}

// ---- GET /api/v1/scoreboard

export interface ScoreboardAnswer {
  source: string;
  /** The version with which the others are compared. */
  against: number | null;
  confidence_percent: number;
  versions: VersionScore[];
}

export interface VersionScore {
  version: number;
  scheme: string;
  since: number;
  until: number | null;
  flows: number;
  unfinished: number;
  deadlines: number;
  missed: number;
  retransmissions: number;
  classes: { small: ClassScore; medium: ClassScore; large: ClassScore; all: ClassScore };
  miss_ratio: ScoreFigure;
  retransmissions_per_flow: ScoreFigure;
}

export interface ClassScore {
  n: number;
  mean_us: ScoreFigure;
  p99_us: ScoreFigure;
  slowdown: ScoreFigure;
  cdf: { us: number[]; share: number[] };
}

export interface ScoreFigure {
  value: number | null;
  low: number | null;
  high: number | null;
  against: Compared | null;
}

export interface Compared {
  ratio: number | null;
  low: number | null;
  high: number | null;
  verdict: "better" | "worse" | "not sure";
}
