// SPDX-License-Identifier: Apache-2.0
// Which events the list shows. The filter is part of the page's address, so a link shows the same list.

/** @import { EventModel } from "../documents.gen.js" */

/** @typedef {"problem" | "warning" | "note"} Severity */
/**
 * @typedef {object} EventFilter
 * @property {string} kind  Empty: every kind.
 * @property {string} severity  The least severe to show; empty: all.
 * @property {string} where  A switch, a port, a host or an agent; empty: anywhere.
 * @property {string} text
 */

/** @type {(keyof EventFilter)[]} */
export const FILTER_KEYS = ["kind", "severity", "where", "text"];
/** The most severe first. @type {Severity[]} */
export const SEVERITIES = ["problem", "warning", "note"];
/** The keys of an event's document that name a place. */
const PLACES = ["switch", "port", "host", "agent", "where", "name"];
const PREFIX = "event-";

const PROBLEMS = new Set([
  "agent-refused",
  "duplicate-datapath-id",
  "host-demoted",
  "network-problem",
  "openflow-error",
  "policy-refused",
  "switch-disconnected",
]);
const WARNINGS = new Set([
  "agent-expired",
  "certificate-revoked",
  "foreign-dscp",
  "idle-override",
  "network-withdrawn",
  "token-revoked",
  "unknown-switch",
  "urgency-spent",
]);

/**
 * A problem needs an operator, a warning may.
 * @param {string} kind
 * @returns {Severity}
 */
export const severityOf = (kind) =>
  PROBLEMS.has(kind) ? "problem" : WARNINGS.has(kind) ? "warning" : "note";

/**
 * The filter in an address's query.
 * @param {string} search
 * @returns {EventFilter}
 */
export function filterOf(search) {
  const query = new URLSearchParams(search);
  /** @param {string} key */
  const value = (key) => query.get(`${PREFIX}${key}`) ?? "";
  return { kind: value("kind"), severity: value("severity"), where: value("where"), text: value("text") };
}

/**
 * The query with this filter; keys of others stay.
 * @param {string} search
 * @param {EventFilter} filter
 */
export function withFilter(search, filter) {
  const query = new URLSearchParams(search);
  for (const key of FILTER_KEYS) {
    if (filter[key]) query.set(`${PREFIX}${key}`, filter[key]);
    else query.delete(`${PREFIX}${key}`);
  }
  return query.size ? `?${query}` : "";
}

/**
 * The places that an event names.
 * @param {EventModel} event
 * @returns {string[]}
 */
export function placesOf({ document }) {
  const named = [...PLACES.map((key) => document[key]), document.ports].flat();
  return [...new Set(named.filter((place) => typeof place === "string"))];
}

/**
 * Whether the list shows the event. `shown` is its text in the list.
 * @param {EventFilter} filter
 * @param {EventModel} event
 * @param {string} shown
 */
export function passes(filter, event, shown) {
  const { kind, severity, where, text } = filter;
  if (kind && event.kind !== kind) return false;
  if (severity && !isAtLeast(event.kind, severity)) return false;
  if (where && !placesOf(event).some((place) => isAt(place, where))) return false;
  return shown.toLowerCase().includes(text.trim().toLowerCase());
}

/**
 * @param {string} kind
 * @param {string} severity An unknown word of an address shows everything.
 */
function isAtLeast(kind, severity) {
  const least = SEVERITIES.indexOf(/** @type {Severity} */ (severity));
  return least < 0 || SEVERITIES.indexOf(severityOf(kind)) <= least;
}

/**
 * Ports of a switch are at the switch, too.
 * @param {string} place
 * @param {string} where
 */
function isAt(place, where) {
  const wanted = where.trim().toLowerCase();
  const known = place.toLowerCase();
  return known === wanted || known.startsWith(`${wanted}:`);
}
