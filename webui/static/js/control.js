// SPDX-License-Identifier: Apache-2.0
// The card that changes the policy: the scheme, its parameters, and what became of the change.

/** @import { Model } from "./pure/model.js" */
/** @import { PolicyVersionModel, SchemeModel } from "./documents.gen.js" */

import { ApiError, putPolicy, roleOf } from "./api.js";
import { byId, element, setText } from "./dom.js";
import { PolicyForm } from "./policy-form.js";
import { Preview } from "./preview.js";
import { policyState } from "./pure/figures.js";
import { answerText, schemeText } from "./pure/policy-text.js";
import { Token } from "./token.js";
import { showWarnings } from "./warnings.js";

/** @typedef {"" | "ok" | "pending" | "error"} MessageKind */

export class Control {
  /**
   * @param {Model} model
   * @param {() => Promise<void>} onChange
   */
  constructor(model, onChange) {
    this.model = model;
    this.onChange = onChange;
    this.form = byId("control", HTMLFormElement);
    this.message = byId("control-message", HTMLElement);
    this.button = byId("apply", HTMLButtonElement);
    this.token = new Token();
    this.fields = new PolicyForm(byId("parameters", HTMLElement));
    const shown = byId("preview", HTMLElement);
    this.previews = new Preview(shown, ({ policy }) => this.fields.mean({ ...policy }));
    /** The scheme and version that the form shows. */
    this.shown = "";
    this.touched = false;
    /** @type {number | null} The version that the controller has not confirmed yet. */
    this.waitingFor = null;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.submit();
    });
    addEventListener("hashchange", () => this.followRole());
    this.form.addEventListener("input", () => {
      this.touched = true;
      this.preview();
    });
  }

  build() {
    const offered = this.model.schemes.filter((scheme) => !scheme.refused);
    byId("schemes", HTMLElement).replaceChildren(...offered.map((scheme) => this.option(scheme)));
    this.follow();
    this.followRole();
  }

  /** Disables the button and says why if the token may only read. */
  async followRole() {
    const token = this.token.value;
    const onlyReads = token ? (await roleOf(token).catch(() => null)) === "read" : false;
    if (onlyReads) this.say("Your token may only read. Changes need a token with the role change.");
    else if (this.button.disabled) this.say("");
    this.button.disabled = onlyReads;
  }

  /** @param {SchemeModel} scheme */
  option({ name, title, colour }) {
    const input = element("input", { type: "radio", name: "scheme", value: name });
    const swatch = element("i");
    swatch.style.setProperty("--key", colour);
    input.addEventListener("change", () => {
      this.touched = true;
      this.choose(name);
      this.preview();
      this.say("");
    });
    return element("label", { className: "scheme" }, input, swatch, element("span", { textContent: title }));
  }

  /** Shows the policy in force, unless someone is filling in the form. */
  follow() {
    const current = this.model.snapshot?.policy;
    const state = byId("control-state", HTMLElement);
    setText(state, current ? policyState(current) : "No policy yet");
    state.dataset.state = current ? current.state : "none";
    if (!this.touched && current) this.choose(current.policy.scheme);
  }

  /** @param {string} name */
  choose(name) {
    const scheme = this.model.scheme(name);
    const current = this.model.snapshot?.policy;
    const inForce = current?.policy.scheme === name ? current : null;
    const shown = `${name} ${inForce ? inForce.version : "default"}`;
    if (!scheme || this.shown === shown) return;
    this.shown = shown;
    for (const radio of this.radios()) radio.checked = radio.value === name;
    const about = schemeText(scheme, inForce?.policy.queues ?? scheme.queues);
    byId("scheme-about", HTMLElement).textContent = about;
    this.fields.show(scheme.fields, inForce ? { ...inForce.policy } : null);
  }

  /** Shows what applying the form would change, once someone has chosen something. */
  preview() {
    const scheme = this.chosen;
    if (!this.touched || !scheme) return this.previews.clear();
    const before = this.model.snapshot?.policy?.policy.scheme ?? scheme;
    const fields = [scheme, before].flatMap((name) => this.model.scheme(name)?.fields ?? []);
    this.previews.ask({ scheme, ...this.fields.values() }, fields);
  }

  /** @returns {NodeListOf<HTMLInputElement>} */
  radios() {
    return this.form.querySelectorAll("input[name=scheme]");
  }

  get chosen() {
    return [...this.radios()].find((radio) => radio.checked)?.value;
  }

  async submit() {
    this.fields.flag(null);
    const scheme = this.chosen;
    const token = this.token.value;
    if (!scheme) return this.say("Choose a scheme first.", "error");
    if (!token) return this.askForToken("To change the policy, enter the access token.");
    this.button.disabled = true;
    showWarnings([]);
    this.say("Applying…", "pending");
    try {
      await this.send({ scheme, ...this.fields.values() }, token);
    } catch (error) {
      this.failed(error);
    } finally {
      this.button.disabled = false;
    }
  }

  /**
   * @param {Record<string, unknown>} document
   * @param {string} token
   */
  async send(document, token) {
    const answer = await putPolicy(document, token);
    this.token.keep();
    this.touched = false;
    this.shown = "";
    this.previews.clear();
    showWarnings(answer.warnings);
    this.waitingFor = answer.state === "pending" ? answer.version : null;
    this.say(answerText(answer), answer.state === "applied" ? "ok" : "pending");
    await this.onChange();
  }

  /** @param {unknown} error */
  failed(error) {
    if (!(error instanceof ApiError)) {
      return this.say("The server did not answer. Check the policy in force, then apply again.", "error");
    }
    if (error.status === 401) {
      this.token.forget();
      return this.askForToken("The server refused the token.");
    }
    this.token.keep();
    const title = this.fields.flag(error.field);
    this.say(title ? `${title} ${error.message}` : error.message, "error");
  }

  /** @param {string} reason */
  askForToken(reason) {
    this.token.ask();
    this.say(`${reason} The server prints it when it starts.`, "error");
  }

  /**
   * Says so when the controller has applied the version that was pending.
   * @param {PolicyVersionModel | null} policy
   */
  notice(policy) {
    if (!this.waitingFor || !policy || policy.version < this.waitingFor || policy.state !== "applied") return;
    this.say(`Version ${policy.version} is applied.`, "ok");
    this.waitingFor = null;
  }

  /**
   * @param {string} text
   * @param {MessageKind} kind
   */
  say(text, kind = "") {
    this.message.textContent = text;
    this.message.dataset.kind = kind;
  }
}
