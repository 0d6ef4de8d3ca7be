// SPDX-License-Identifier: Apache-2.0
// The control that changes the policy: a scheme, its parameters for those who want them, and what became of it.

import { ApiError, putPolicy } from "./api.js";
import { bytes } from "./pure/format.js";

const TOKEN_KEY = "sluice-token";
const INTEGERS = ["queues", "window_ms", "interval_ms"];
/** The policy's fields by which a scheme marks, in the order of its defaults. */
const MARKS = { port: ["mark_at"], red: ["mark_min", "mark_max"], phantom: ["mark_at"] };
const ALL_MARKS = ["mark_at", "mark_min", "mark_max"];
/** Rules under which thresholds follow what the ports count. */
const ADAPTIVE = ["percentile", "online"];

export class Control {
  constructor(model, onChange) {
    this.model = model;
    this.onChange = onChange;
    this.form = document.getElementById("control");
    this.message = document.getElementById("control-message");
    this.tokenField = document.getElementById("token-field");
    this.button = document.getElementById("apply");
    this.shown = null;
    this.touched = false;
    this.waitingFor = null;
    takeTokenFromAddress();
    addEventListener("hashchange", takeTokenFromAddress);
    this.form.addEventListener("submit", (event) => this.submit(event));
    this.form.addEventListener("input", () => (this.touched = true));
  }

  build() {
    const group = document.getElementById("schemes");
    const offered = this.model.schemes.filter((scheme) => !scheme.refused);
    group.replaceChildren(...offered.map((scheme) => this.option(scheme)));
    this.follow();
  }

  option(scheme) {
    const label = document.createElement("label");
    label.className = "scheme";
    label.innerHTML = '<input type="radio" name="scheme"><i></i><span></span>';
    const input = label.querySelector("input");
    input.value = scheme.name;
    input.addEventListener("change", () => {
      this.touched = true;
      this.choose(scheme.name);
      this.say("");
    });
    label.querySelector("i").style.cssText = `--key:${scheme.colour}`;
    label.querySelector("span").textContent = scheme.title;
    return label;
  }

  /** Show the policy in force, unless someone is filling the form in. */
  follow() {
    const current = this.model.snapshot?.policy;
    const state = document.getElementById("control-state");
    state.textContent = current ? `v${current.version} ${current.state}` : "no policy yet";
    state.dataset.state = current ? current.state : "none";
    if (!this.touched && current && this.model.schemes.length) this.choose(current.policy.scheme);
  }

  choose(name) {
    const scheme = this.model.scheme(name);
    const current = this.model.snapshot?.policy?.policy;
    const inForce = current && current.scheme === name ? current : null;
    const shown = `${name} ${inForce ? this.model.snapshot.policy.version : "default"}`;
    if (this.shown === shown) return;
    this.shown = shown;
    this.form.elements.scheme.value = name;
    document.getElementById("scheme-about").textContent =
      `${scheme.paper}. ${describe(scheme, inForce ?? scheme)}`;
    this.fill("queues", inForce?.queues, scheme.queues);
    this.offerMarks(scheme, inForce);
    this.fill(
      "thresholds",
      null,
      (inForce?.thresholds ?? scheme.thresholds_bytes).map((b) => bytes(b)).join(", ") || "none",
    );
    this.fill(
      "percentiles",
      null,
      inForce?.percentiles?.join(", ") || (scheme.threshold_rule === "percentile" ? "10, 20, …" : "not used"),
    );
    this.fill("window_ms", null, inForce?.window_ms ?? 500);
    this.fill("interval_ms", null, inForce?.interval_ms ?? 100);
    this.enable("percentiles", scheme.threshold_rule === "percentile");
    for (const name of ["window_ms", "interval_ms"])
      this.enable(name, ADAPTIVE.includes(scheme.threshold_rule));
    for (const name of ["thresholds", "queues"]) this.enable(name, scheme.threshold_rule !== "none");
  }

  /** The marking thresholds that the scheme takes; the others are not there. */
  offerMarks(scheme, inForce) {
    const taken = MARKS[scheme.marking] ?? [];
    for (const name of ALL_MARKS) {
      const position = taken.indexOf(name);
      const offered = position >= 0 || (name === "mark_at" && taken.length === 0);
      this.form.elements[name].closest("label").hidden = !offered;
      this.enable(name, position >= 0);
      this.fill(
        name,
        inForce?.[name] ? bytes(inForce[name]) : null,
        position >= 0 ? bytes(scheme.marks_bytes[position]) : "does not mark",
      );
    }
  }

  /** The value in force or the default is a placeholder: what is left blank takes the scheme's default. */
  fill(name, value, otherwise) {
    const input = this.form.elements[name];
    input.value = "";
    input.placeholder = String(value ?? otherwise);
  }

  enable(name, on) {
    this.form.elements[name].disabled = !on;
  }

  document() {
    const read = (name) => (this.form.elements[name].disabled ? "" : this.form.elements[name].value.trim());
    const document = { scheme: this.form.elements.scheme.value };
    for (const name of INTEGERS) if (read(name)) document[name] = number(read(name));
    for (const name of ALL_MARKS) if (read(name)) document[name] = quantity(read(name));
    if (read("thresholds")) document.thresholds = parts(read("thresholds")).map(quantity);
    if (read("percentiles")) document.percentiles = parts(read("percentiles")).map(number);
    return document;
  }

  async submit(event) {
    event.preventDefault();
    this.flag(null);
    const token = document.getElementById("token").value.trim() || sessionStorage.getItem(TOKEN_KEY);
    if (!this.form.elements.scheme.value) return this.say("Choose a scheme first.", "error");
    if (!token)
      return this.askForToken(
        "Changing the policy takes the access token that the server printed at its start.",
      );
    this.button.disabled = true;
    this.say("Applying…", "pending");
    try {
      await this.send(token);
    } catch (error) {
      this.failed(error);
    } finally {
      this.button.disabled = false;
    }
  }

  async send(token) {
    const answer = await putPolicy(this.document(), token);
    this.keepToken();
    this.touched = false;
    this.shown = null;
    if (answer.state === "applied") {
      const took = answer.applied_at - answer.created_at;
      this.say(
        `Applied as version ${answer.version} in ${took < 1 ? `${Math.round(took * 1000)} ms` : `${took.toFixed(1)} s`}.`,
        "ok",
      );
    } else if (answer.state === "pending") {
      this.say(`Version ${answer.version} is pending: the controller has not confirmed it yet.`, "pending");
      this.waitingFor = answer.version;
    } else {
      this.say(`Version ${answer.version} was replaced before it was applied.`, "pending");
    }
    await this.onChange();
  }

  failed(error) {
    if (!(error instanceof ApiError))
      return this.say("The server did not answer. Nothing was changed as far as is known.", "error");
    if (error.status === 401) {
      sessionStorage.removeItem(TOKEN_KEY);
      return this.askForToken("The token was refused.");
    }
    this.keepToken();
    this.flag(error.field);
    return this.say(`${error.field ? `${error.field} ` : ""}${error.message}`, "error");
  }

  /** The token that was typed has served: it is kept for this tab, and not asked for again. */
  keepToken() {
    const typed = document.getElementById("token");
    if (typed.value.trim()) sessionStorage.setItem(TOKEN_KEY, typed.value.trim());
    typed.value = "";
    this.tokenField.hidden = true;
  }

  /** A pending version that the controller has confirmed meanwhile. */
  notice(policy) {
    if (this.waitingFor && policy && policy.version >= this.waitingFor && policy.state === "applied") {
      this.say(`Version ${policy.version} is applied.`, "ok");
      this.waitingFor = null;
    }
  }

  askForToken(text) {
    this.tokenField.hidden = false;
    this.say(text, "error");
    document.getElementById("token").focus();
  }

  flag(field) {
    for (const label of this.form.querySelectorAll("[data-field]")) {
      label.classList.toggle("wrong", label.dataset.field === field);
      if (label.dataset.field !== field) continue;
      label.closest("details").open = true;
      label.scrollIntoView({ block: "nearest" });
    }
  }

  say(text, kind = "") {
    this.message.textContent = text;
    this.message.dataset.kind = kind;
  }
}

function describe(scheme, policy) {
  const queues = policy.queues === 1 ? "One queue" : `${policy.queues} queues`;
  const rules = {
    none: "no thresholds",
    static: "fixed thresholds",
    percentile: "thresholds that follow the traffic",
    online: "thresholds that each port finds best",
  };
  return `${queues}, ${rules[scheme.threshold_rule]}, ${scheme.congestion_control}.`;
}

function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (!given) return;
  sessionStorage.setItem(TOKEN_KEY, given);
  history.replaceState(null, "", location.pathname + location.search);
}

const parts = (text) => text.split(/[,;]\s*/).filter(Boolean);
/** What is no number goes to the server as it is: its refusal says what is wrong. */
const number = (text) => (/^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text);
const quantity = (text) => (/^\d+$/.test(text) ? Number(text) : text.replace(/\s+/g, ""));
