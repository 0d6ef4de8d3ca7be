// SPDX-License-Identifier: Apache-2.0
// Runs as text.

/** @import { RunClassModel, RunModel, RunPlanModel } from "../documents.gen.js" */

import { digits, percent, time } from "./format.js";

/** @typedef {"" | "good" | "warn" | "bad"} Tone */

/** @type {Record<RunModel["state"], string>} */
const STATES = {
  running: "Running",
  ending: "Ending",
  done: "Done",
  interrupted: "Interrupted",
  failed: "Failed",
  lost: "No result",
  partial: "Incomplete",
};

/** @param {RunModel} run */
export const isUnderWay = (run) => run.state === "running" || run.state === "ending";

/** @param {RunModel} run */
export const hasResult = (run) =>
  run.kind === "sweep"
    ? (run.finished ?? 0) > 0
    : run.figures !== null && run.state !== "failed" && run.state !== "lost";

/**
 * A length in words: "about 5 min".
 * @param {number} seconds
 */
export function length(seconds) {
  if (seconds < 90) return `about ${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 90) return `about ${minutes} min`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `about ${hours} h ${minutes % 60} min` : `about ${Math.floor(hours / 24)} days`;
}

/** @param {RunModel} run */
export function progressText({ state, progress, kind }) {
  if (state === "ending") return "Ending in order: it writes what it has.";
  if (!progress) return "Starting…";
  const { share, recorded, scheduled, remaining_s } = progress;
  const left = remaining_s === null ? "time left still unknown" : `${length(remaining_s)} left`;
  if (!scheduled) return `Preparing, ${left}`;
  return `${Math.floor(share * 100)} %, ${recorded} of ${scheduled} ${kind === "sweep" ? "points" : "flows"}, ${left}`;
}

/**
 * The state of a run that is not under way, and whether it is good.
 * @param {RunModel} run
 * @returns {{ text: string, tone: Tone, title: string }}
 */
export function stateText({ state, valid, reason, points, finished }) {
  if (points !== null) {
    const tone = state === "done" ? "good" : "warn";
    return { text: `${finished} of ${points} points`, tone, title: reason };
  }
  if (state === "done" && valid === false) {
    return { text: "Not valid", tone: "bad", title: "The report says why." };
  }
  const tones = /** @type {Record<string, Tone>} */ ({ done: "good", failed: "bad", lost: "bad" });
  return { text: STATES[state], tone: tones[state] ?? "warn", title: reason };
}

/**
 * The cells of a row after its name and state.
 * @param {RunModel} run
 */
export function cells({ schemes, on, load, figures, changed_at }) {
  const small = figures?.classes.small;
  const all = figures?.classes.all;
  return [
    schemes.join(", ") || "–",
    on,
    load === null ? "–" : digits(load),
    all ? String(all.n) : "–",
    timeOf(small, "mean_us"),
    timeOf(small, "p99_us"),
    timeOf(all, "mean_us"),
    figures?.deadlines ? percent(figures.missed / figures.deadlines) : "–",
    when(changed_at),
  ];
}

/**
 * Rows of size class, flows, mean and p99.
 * @param {RunModel} run
 */
export function partialRows({ figures }) {
  return Object.entries(figures?.classes ?? {}).map(([name, row]) => [
    name.charAt(0).toUpperCase() + name.slice(1),
    String(row.n),
    timeOf(row, "mean_us"),
    timeOf(row, "p99_us"),
  ]);
}

/**
 * @param {RunClassModel | undefined} row
 * @param {"mean_us" | "p99_us"} key
 */
function timeOf(row, key) {
  const us = row?.[key] ?? null;
  return us === null ? "–" : time(us);
}

/** @param {number} epochS Local date and time. */
export function when(epochS) {
  const at = new Date(epochS * 1000);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  const day = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  return `${day} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

/**
 * Whether a run has all words of the filter somewhere.
 * @param {RunModel} run
 * @param {string} filter
 */
export function matches({ name, scenario, schemes, on, kind }, filter) {
  const text = [name, scenario, ...schemes, on, kind].join(" ").toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}

/** @param {string[]} names */
export function reportPath(names) {
  const query = new URLSearchParams();
  for (const name of names) query.append("run", name);
  return `/api/v1/runs/report?${query}`;
}

/** @param {RunPlanModel} plan */
export function planText({ scheme, points, predicted_s, obstacle }) {
  const takes = predicted_s === null ? "an unknown time" : length(predicted_s);
  const now = obstacle ? ` It cannot start now: ${obstacle}.` : "";
  const what = points === null ? scheme : `${points} points (${scheme})`;
  return `Valid. It runs ${what} and takes ${takes}.${now}`;
}
