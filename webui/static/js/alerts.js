// SPDX-License-Identifier: Apache-2.0
// Alerts: banners above the page, marks in its bar, and the list of all rules with their states.

/** @import { Banner, Row } from "./pure/alerts.js" */
/** @import { Snapshot } from "./types.js" */

import { byId, element } from "./dom.js";
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
  if (isSame(banner, rows)) return;
  banner.replaceChildren(
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
  const news = byId("alert-news", HTMLElement);
  if (
    isSame(
      news,
      banners.map(({ key }) => key),
    )
  )
    return;
  news.textContent = banners.map(({ head }) => head).join(", ");
}

/** @param {Snapshot} snapshot */
function showSummary(snapshot) {
  const { text, state } = alertSummary(snapshot.alerts);
  for (const id of ["alerts-summary", "alerts-mark"]) {
    const shown = byId(id, HTMLElement);
    if (shown.textContent !== text) shown.textContent = text;
    shown.dataset.state = state;
  }
  byId("alerts-mark", HTMLElement).hidden = state === "applied";
  const notes = byId("alerts-notes", HTMLElement);
  const said = alertNotes(snapshot);
  if (notes.textContent !== said) notes.textContent = said;
}

/** @param {Row[]} rows */
function showList(rows) {
  const list = byId("alerts", HTMLElement);
  if (isSame(list, rows)) return;
  const none = element("li", { className: "empty", textContent: "No rule is in force." });
  list.replaceChildren(...(rows.length ? rows.map(listRow) : [none]));
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

/**
 * Whether the element shows this already: the same again would take a selection away, or be read aloud again.
 * @type {(shown: HTMLElement, content: unknown) => boolean}
 */
function isSame(shown, content) {
  const key = JSON.stringify(content);
  if (shown.dataset.key === key) return true;
  shown.dataset.key = key;
  return false;
}
