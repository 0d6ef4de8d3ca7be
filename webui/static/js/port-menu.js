// SPDX-License-Identifier: Apache-2.0
// The menu of one port: its thresholds and where they come from, and its override.

/** @import { Model } from "./pure/model.js" */

import { ApiError, deleteOverride, putOverride } from "./api.js";
import { byId, element, setChildren, setText } from "./dom.js";
import { parse } from "./pure/field-values.js";
import { percent, rate } from "./pure/format.js";
import { linkConditions } from "./pure/links.js";
import { answerText } from "./pure/policy-text.js";
import { portThresholds } from "./pure/port-thresholds.js";
import { Token } from "./token.js";

export class PortMenu {
  /** @param {Model} model */
  constructor(model) {
    this.model = model;
    this.port = "";
    /** Counts the openings, so that an answer for a port that was closed shows nothing. */
    this.opened = 0;
    /** What a token was needed for. */
    this.again = () => {};
    this.dialog = byId("port-menu", HTMLDialogElement);
    this.levels = byId("port-levels", HTMLInputElement);
    this.message = byId("port-message", HTMLElement);
    this.token = new Token("port-token");
    this.buttons = {
      freeze: this.button("port-freeze", () => this.run(() => this.change(putOverride, { freeze: true }))),
      remove: this.button("port-remove", () => this.run(() => this.change(deleteOverride))),
    };
    this.button("port-close", () => this.dialog.close());
    this.fix = byId("port-fix", HTMLFormElement);
    this.fix.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run(() => this.change(putOverride, { thresholds: parse("list of size", this.levels.value) }));
    });
    byId("port-token-form", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      this.again();
    });
    this.dialog.addEventListener("close", () => {
      this.opened += 1;
    });
  }

  /**
   * @param {string} id
   * @param {() => void} does
   */
  button(id, does) {
    const found = byId(id, HTMLButtonElement);
    found.addEventListener("click", does);
    return found;
  }

  /** @param {() => void} does Once more, if it needs a token that someone enters then. */
  run(does) {
    this.again = does;
    does();
  }

  /** @param {string} port */
  open(port) {
    if (!port) return;
    this.port = port;
    this.opened += 1;
    this.levels.value = "";
    this.say("");
    this.show();
    if (!this.dialog.open) this.dialog.showModal();
  }

  /** Shows the port as the last snapshot has it. What someone has typed stays. */
  show() {
    const { snapshot, topology } = this.model;
    if (!snapshot) return;
    const peer = this.model.peer(this.port);
    byId("port-title", HTMLElement).textContent = peer ? `Port ${this.port} to ${peer}` : `Port ${this.port}`;
    const facts = byId("port-facts", HTMLElement);
    setText(facts, this.facts());
    const found = portThresholds(
      snapshot,
      this.model.scheme(snapshot.policy?.policy.scheme ?? ""),
      this.port,
    );
    this.showThresholds(found);
    const condition = topology
      ? linkConditions(topology, snapshot.health.problems).get(this.port)
      : undefined;
    const link = byId("port-link", HTMLElement);
    link.hidden = !condition;
    link.dataset.state = condition?.state ?? "";
    setText(
      link,
      condition
        ? `${condition.state === "down" ? "Down" : "Impaired"}: ${condition.reasons.join("; ")}.`
        : "",
    );
  }

  facts() {
    const now = this.model.snapshot?.ports[this.port];
    const capacity = now?.capacity_bps ?? 0;
    if (!now || now.rate_bps === null) return capacity ? `Link of ${rate(capacity)}.` : "No counters yet.";
    const load = now.load === null ? "" : `, load ${percent(now.load)}`;
    return `${rate(now.rate_bps)} now${capacity ? ` of ${rate(capacity)}` : ""}${load}.`;
  }

  /** @param {import("./pure/port-thresholds.js").PortThresholds} found */
  showThresholds({ rows, source, state, isOwn, canFix, canFreeze, count }) {
    const pairs = rows.flatMap(({ label, text }) => [
      element("dt", { textContent: label }),
      element("dd", { textContent: text }),
    ]);
    setChildren(byId("port-thresholds", HTMLElement), ...pairs);
    setText(byId("port-source", HTMLElement), source);
    this.dialog.dataset.override = state;
    this.fix.hidden = !canFix;
    this.levels.placeholder = rows.map(({ text }) => text.replace(" ", "")).join(", ");
    setText(byId("port-count", HTMLElement), count === 1 ? "Thresholds, one" : `Thresholds, ${count}`);
    this.buttons.freeze.hidden = !canFreeze || state === "frozen";
    this.buttons.remove.hidden = !isOwn;
    setText(this.buttons.remove, state === "frozen" ? "Unfreeze" : "Remove override");
  }

  /**
   * Changes the override of the port.
   * @param {typeof putOverride} request
   * @param {Record<string, unknown>} [rule]
   */
  async change(request, rule) {
    await this.withToken(async (token) => {
      this.say("Applying…", "pending");
      const answer = await request(this.port, token, rule);
      this.levels.value = "";
      this.say(answerText(answer), answer.state === "applied" ? "ok" : "pending");
    });
  }

  /**
   * Does something that needs the token, and says what went wrong.
   * @param {(token: string) => Promise<void>} does
   */
  async withToken(does) {
    const token = this.token.value;
    if (!token) return this.askForToken("This needs a token with the role change.");
    try {
      await does(token);
      this.token.keep();
    } catch (error) {
      this.failed(error);
    }
  }

  /** @param {unknown} error */
  failed(error) {
    if (!(error instanceof ApiError)) return this.say("The server did not answer. Try again.", "error");
    if (error.status !== 401) return this.say(error.message, "error");
    this.token.forget();
    this.askForToken("The server refused the token.");
  }

  /** @param {string} reason */
  askForToken(reason) {
    this.token.ask();
    this.say(`${reason} The server prints where it is when it starts.`, "error");
  }

  /**
   * @param {string} text
   * @param {"" | "ok" | "pending" | "error"} kind
   */
  say(text, kind = "") {
    setText(this.message, text);
    this.message.dataset.kind = kind;
  }
}
