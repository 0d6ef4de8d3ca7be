// SPDX-License-Identifier: Apache-2.0
// What the page says of alerts, and of figures that are not valid.

/** @import { Alert, AlertState, AlertsAnswer, Validity } from "../alert-types.js" */
/** @import { Snapshot } from "../types.js" */

import { clock } from "./format.js";

/** @typedef {{ id: string, name: string, state: AlertState, stateText: string, text: string, remedy: string }} Row */
/** @typedef {{ head: string, text: string }} Banner */

/** The most banners of alerts. The list below has all of them. */
const MOST_BANNERS = 3;

/** @param {string} text */
const sentence = (text) => text && `${text.charAt(0).toUpperCase()}${text.slice(1).replace(/\.?$/, ".")}`;

/** @param {Alert} alert */
const named = ({ alert, subject }) => (subject ? `${alert} ${subject}` : alert);

/**
 * @param {Alert} alert
 * @returns {Row}
 */
export function alertRow(alert) {
  const { state, since, reason, condition, remedy } = alert;
  const title = state.charAt(0).toUpperCase() + state.slice(1);
  return {
    id: `${alert.alert}/${alert.subject}`,
    name: named(alert),
    state,
    stateText: since === null ? title : `${title} since ${clock(since)}`,
    text: sentence(reason || condition),
    remedy: state === "firing" || state === "pending" ? sentence(remedy) : "",
  };
}

/**
 * The alerts that the page shows above everything. What makes figures invalid has a banner of its own.
 * @param {AlertsAnswer} alerts
 * @returns {Banner[]}
 */
export function alertBanners({ alerts }) {
  const firing = alerts.filter((alert) => alert.state === "firing" && alert.figure !== "not-valid");
  const shown = firing.slice(0, MOST_BANNERS).map((alert) => ({
    head: named(alert),
    text: [sentence(alert.reason), sentence(alert.remedy)].join(" "),
  }));
  const more = firing.length - shown.length;
  return more > 0 ? [...shown, { head: `${more} more`, text: "The list of alerts has all." }] : shown;
}

/**
 * @param {Validity} validity
 * @returns {Banner[]}
 */
export function validityBanners({ reasons }) {
  if (!reasons.length) return [];
  const remedies = [...new Set(reasons.map((reason) => sentence(reason.remedy)))];
  const shown = reasons.slice(0, MOST_BANNERS).map((reason) => sentence(reason.problem));
  const more = reasons.length - shown.length;
  const rest = more > 0 ? [`And ${more} more reasons.`] : [];
  const text = [...shown, ...rest, ...remedies].join(" ");
  return [{ head: "What the page shows is not valid", text }];
}

/** @param {AlertsAnswer} alerts */
export function alertSummary({ alerts }) {
  /** @param {AlertState} state */
  const count = (state) => alerts.filter((alert) => alert.state === state).length;
  const [firing, pending] = [count("firing"), count("pending")];
  const parts = [...(firing ? [`${firing} firing`] : []), ...(pending ? [`${pending} pending`] : [])];
  if (parts.length) return { text: parts.join(", "), state: firing ? "firing" : "pending" };
  return { text: alerts.length ? "All ok" : "No rules", state: "applied" };
}

/**
 * What the header of the list says of the rules, the webhook and the validity.
 * @param {Pick<Snapshot, "alerts" | "validity">} snapshot
 */
export function alertNotes({ alerts, validity }) {
  const { host, waiting, problem } = alerts.webhook;
  const rules = alerts.rules_from === "api" ? ["Rules set over the API."] : [];
  const why = problem ? ` (${problem})` : "";
  const state = waiting ? `Messages that wait for ${host}: ${waiting}${why}.` : `Webhook: ${host}.`;
  return [...rules, ...(host ? [state] : []), ...(validity.note ? [sentence(validity.note)] : [])]
    .join(" ")
    .trim();
}
