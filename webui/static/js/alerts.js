// SPDX-License-Identifier: Apache-2.0
// Alerts: banners above the page, marks in its bar, and the list of all rules with their states.

/** @import { Banner, Row } from "./pure/alerts.js" */
/** @import { Snapshot } from "./types.js" */

import { byId, element, setChildren, setText } from "./dom.js";
import { alertBanners, alertNotes, alertRow, alertSummary, validityBanners } from "./pure/alerts.js";

/** @param {Snapshot} snapshot */
export function showAlerts(snapshot) {
  const { alerts, validity } = snapshot;
  const [firing, flaws] = [alertBanners(alerts), validityBanners(validity)];
  showBanners(byId("alert-banners", HTMLElement), firing);
  showBanners(byId("validity-banner", HTMLElement), flaws);
  announce([...flaws, ...firing]);
  document.body.dataset.valid = String(validity.valid);
  byId("validity-mark", HTMLElement).hidden = !flaws.length;
  showSummary(snapshot);
  showList(alerts.alerts.map(alertRow));
}

/** @type {(banner: HTMLElement, rows: Banner[]) => void} */
function showBanners(banner, rows) {
  banner.hidden = !rows.length;
  setChildren(
    banner,
    ...rows.map(({ head, text }) =>
      element("p", {}, element("strong", { textContent: `${head}.` }), ` ${text}`),
    ),
  );
}

/**
 * Says a banner aloud when it appears. Its figures change every few seconds, so the banner itself is no live region.
 * @param {Banner[]} banners
 */
function announce(banners) {
  setText(byId("alert-news", HTMLElement), banners.map(({ head }) => head).join(", "));
}

/** @param {Snapshot} snapshot */
function showSummary(snapshot) {
  const { text, state } = alertSummary(snapshot.alerts);
  for (const id of ["alerts-summary", "alerts-mark"]) {
    const shown = byId(id, HTMLElement);
    setText(shown, text);
    shown.dataset.state = state;
  }
  byId("alerts-mark", HTMLElement).hidden = state === "applied";
  setText(byId("alerts-notes", HTMLElement), alertNotes(snapshot));
}

/** @param {Row[]} rows */
function showList(rows) {
  const none = element("li", { className: "empty", textContent: "No rule is in force." });
  setChildren(byId("alerts", HTMLElement), ...(rows.length ? rows.map(listRow) : [none]));
}

/** @param {Row} row */
function listRow({ id, name, state, stateText, text, remedy }) {
  const made = element(
    "li",
    {},
    element("strong", { textContent: name }),
    element("span", { className: "alert-state", textContent: stateText }),
    element("p", { textContent: text }),
    ...(remedy ? [element("p", { className: "remedy", textContent: remedy })] : []),
  );
  made.dataset.alert = id;
  made.dataset.state = state;
  return made;
}
