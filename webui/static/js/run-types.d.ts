// SPDX-License-Identifier: Apache-2.0
// The documents about runs that the server sends: GET /api/v1/runs, POST /api/v1/runs/check, POST /api/v1/runs.

export interface RunsAnswer {
  /** The web process has a folder of runs. */
  available: boolean;
  /** The newest first. */
  runs: Run[];
  scenarios: string[];
  fabrics: RunFabric[];
}

export interface RunFabric {
  name: string;
  /** Why no run can start there now; null if one can. */
  problem: string | null;
}

export interface Run {
  /** Path in the folder of runs. */
  name: string;
  kind: "run" | "sweep";
  state: "running" | "ending" | "done" | "interrupted" | "failed" | "lost" | "partial";
  reason: string;
  changed_at: number;
  scenario: string;
  schemes: string[];
  on: string;
  load: number | null;
  by: string | null;
  /** The page can cancel it. */
  own: boolean;
  progress: RunProgress | null;
  figures: RunFigures | null;
  valid: boolean | null;
  points: number | null;
  finished: number | null;
}

export interface RunProgress {
  /** 0 to 1. */
  share: number;
  elapsed_s: number;
  remaining_s: number | null;
  /** Flows that have ended, or points of a sweep. */
  recorded: number;
  scheduled: number;
}

export interface RunFigures {
  classes: Record<string, RunClass>;
  deadlines: number;
  missed: number;
  unfinished: number;
}

export interface RunClass {
  n: number;
  mean_us: number | null;
  p99_us: number | null;
}

export interface RunPlan {
  scenario: string;
  scheme: string;
  /** Of a sweep; null for a run. */
  points: number | null;
  on: string;
  predicted_s: number | null;
  asks: boolean;
  obstacle: string | null;
}

export interface StartedRun {
  name: string;
  predicted_s: number | null;
}
