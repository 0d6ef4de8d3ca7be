// SPDX-License-Identifier: Apache-2.0

/** @import { Alert } from "../../../../webui/static/js/alert-types.js" */

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  alertBanners,
  alertNotes,
  alertRow,
  alertSummary,
  validityBanners,
} from "../../../../webui/static/js/pure/alerts.js";
import { clock } from "../../../../webui/static/js/pure/format.js";
import { NOW } from "./documents.mjs";

/**
 * @param {Partial<Alert>} different
 * @returns {Alert}
 */
function alert(different = {}) {
  return {
    alert: "deadlines-missed",
    subject: "",
    figure: "deadline-misses",
    state: "firing",
    since: NOW,
    fired_at: NOW,
    value: 0.2,
    flows: 90,
    reason: "the deadline was missed by 20 %",
    remedy: "lower the load",
    condition: "missed deadlines above 5 %",
    ...different,
  };
}

/** @param {Alert[]} alerts */
const answer = (...alerts) => ({
  rules_from: /** @type {const} */ ("configuration"),
  alerts,
  webhook: { host: null, waiting: 0, problem: "" },
});

const OK = alert({ state: "ok", since: null, fired_at: null, reason: "", remedy: "" });

test("a row has the reason and the remedy of an alert, and the condition of one that is ok", () => {
  assert.deepEqual(alertRow(alert()), {
    id: "deadlines-missed/",
    name: "deadlines-missed",
    state: "firing",
    stateText: `Firing since ${clock(NOW)}`,
    text: "The deadline was missed by 20 %.",
    remedy: "Lower the load.",
  });
  const ok = alertRow(OK);
  assert.equal(ok.stateText, "Ok");
  assert.equal(ok.text, "Missed deadlines above 5 %.");
  assert.equal(alertRow(alert({ state: "resolved" })).remedy, "");
  assert.equal(alertRow(alert({ alert: "agent-down", subject: "h1" })).name, "agent-down h1");
});

test("a banner for each firing alert, but not for all of many", () => {
  assert.deepEqual(alertBanners(answer(OK, alert({ state: "pending" }), alert({ state: "resolved" }))), []);
  const down = [1, 2, 3, 4, 5].map((i) => alert({ alert: "agent-down", subject: `h${i}` }));
  const heads = alertBanners(answer(...down)).map(({ head }) => head);
  assert.deepEqual(heads, ["agent-down h1", "agent-down h2", "agent-down h3", "2 more"]);
  const [banner] = alertBanners(answer(alert()));
  assert.equal(banner.text, "The deadline was missed by 20 %. Lower the load.");
});

test("figures that are not valid have one banner, not that of their alert as well", () => {
  assert.deepEqual(alertBanners(answer(alert({ figure: "not-valid" }))), []);
  const reason = {
    kind: /** @type {const} */ ("cpu"),
    where: "ports",
    problem: "it was busy",
    remedy: "wait",
  };
  assert.deepEqual(validityBanners({ valid: true, reasons: [], note: "" }), []);
  const [banner] = validityBanners({ valid: false, reasons: Array(5).fill(reason), note: "" });
  assert.equal(banner.head, "What the page shows is not valid");
  assert.equal(banner.text, "It was busy. It was busy. It was busy. And 2 more reasons. Wait.");
});

test("the summary counts what needs attention", () => {
  assert.deepEqual(alertSummary(answer()), { text: "No rules", state: "applied" });
  assert.deepEqual(alertSummary(answer(OK)), { text: "All ok", state: "applied" });
  assert.deepEqual(alertSummary(answer(alert({ state: "pending" }))), {
    text: "1 pending",
    state: "pending",
  });
  const both = answer(alert(), alert({ state: "pending" }));
  assert.deepEqual(alertSummary(both), { text: "1 firing, 1 pending", state: "firing" });
});

test("the notes say where rules come from, what the webhook waits for, and what is unknown", () => {
  const valid = { valid: true, reasons: [], note: "" };
  assert.equal(alertNotes({ alerts: answer(), validity: valid }), "");
  const webhook = { host: "hooks.example", waiting: 2, problem: "hooks.example answers 500" };
  const alerts = { ...answer(), rules_from: /** @type {const} */ ("api"), webhook };
  const validity = { valid: null, reasons: [], note: "no port agent reports" };
  assert.equal(
    alertNotes({ alerts, validity }),
    "Rules set over the API. Messages that wait for hooks.example: 2 (hooks.example answers 500). No port agent reports.",
  );
  const idle = { ...answer(), webhook: { host: "hooks.example", waiting: 0, problem: "" } };
  assert.equal(alertNotes({ alerts: idle, validity: valid }), "Webhook: hooks.example.");
});
