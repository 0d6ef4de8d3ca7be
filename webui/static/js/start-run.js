// SPDX-License-Identifier: Apache-2.0
// The form that starts a run or a sweep: fabric, scenario, changes, and what became of it.

/** @import { RunFabricModel, RunPlanModel, RunsAnswer, StartedRunModel } from "./documents.gen.js" */

import { ApiError, post } from "./api.js";
import { byId, element } from "./dom.js";
import { planText } from "./pure/runs.js";
import { SweepFields } from "./sweep-fields.js";
import { Token } from "./token.js";

const OWN = "";
/** @type {Record<string, string>} */
const TITLES = { simulator: "Simulator", testbed: "Testbed: real switches, real TCP" };
/** @type {Record<string, string>} Field of an error → id of its control. */
const CONTROLS = {
  flows: "flows",
  "workload.flows": "flows",
  settings: "settings",
  scenario: "scenario",
  text: "own",
  schemes: "schemes",
  loads: "loads",
  seeds: "seeds",
};

export class StartRun {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.token = new Token();
    this.sweep = new SweepFields();
    this.form = byId("start", HTMLFormElement);
    this.message = byId("start-message", HTMLElement);
    this.scenario = byId("scenario", HTMLSelectElement);
    this.own = byId("own", HTMLInputElement);
    this.dialog = byId("confirm", HTMLDialogElement);
    this.buttons = [byId("start-button", HTMLButtonElement), byId("predict", HTMLButtonElement)];
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.send((token) => this.start(false, token));
    });
    this.buttons[1].addEventListener("click", () => this.send((token) => this.predict(token)));
    this.scenario.addEventListener("change", () => this.follow());
    this.dialog.addEventListener("close", () => {
      if (this.dialog.returnValue === "yes") this.send((token) => this.start(true, token));
      else this.say("Nothing has started.");
    });
  }

  /** @param {RunsAnswer} answer */
  show({ scenarios, fabrics }) {
    const key = JSON.stringify([scenarios, fabrics]);
    if (this.form.dataset.key === key) return;
    this.form.dataset.key = key;
    if (!this.scenario.options.length) {
      const options = scenarios.map((name) => new Option(name, name));
      this.scenario.replaceChildren(...options, new Option("Own file…", OWN));
    }
    this.showFabrics(fabrics);
    this.follow();
  }

  /** @param {RunFabricModel[]} fabrics */
  showFabrics(fabrics) {
    const focused = document.activeElement instanceof HTMLInputElement ? document.activeElement.value : "";
    const chosen = this.on;
    const labels = fabrics.map(({ name, problem }, place) => {
      const input = element("input", { type: "radio", name: "on", value: name });
      input.checked = chosen ? name === chosen : place === 0;
      const label = element("label", {}, input, element("span", { textContent: TITLES[name] ?? name }));
      if (problem) label.append(element("small", { textContent: problem }));
      return label;
    });
    byId("fabrics", HTMLElement).replaceChildren(...labels);
    if (fabrics.some(({ name }) => name === focused)) this.radio(focused)?.focus();
  }

  /** @param {string} name */
  radio(name) {
    return /** @type {HTMLInputElement | null} */ (
      this.form.querySelector(`input[name=on][value="${name}"]`)
    );
  }

  get on() {
    const checked = this.form.querySelector("input[name=on]:checked");
    return checked instanceof HTMLInputElement ? checked.value : "";
  }

  follow() {
    byId("own-field", HTMLElement).hidden = this.scenario.value !== OWN;
  }

  /** @param {boolean} confirmed */
  async document(confirmed) {
    const file = this.own.files?.[0];
    if (this.scenario.value === OWN && !file)
      throw new ApiError(422, { problem: "Choose a scenario file.", field: "text" });
    const what =
      this.scenario.value === OWN ? { text: await file?.text() } : { scenario: this.scenario.value };
    const flows = byId("flows", HTMLInputElement).value.trim();
    const lines = byId("settings", HTMLTextAreaElement).value.split("\n");
    return {
      on: this.on,
      ...what,
      ...(flows ? { flows: /^\d+$/.test(flows) ? Number(flows) : flows } : {}),
      ...this.sweep.values(),
      settings: lines.map((line) => line.trim()).filter(Boolean),
      confirmed,
    };
  }

  /** @param {(token: string) => Promise<void>} act */
  async send(act) {
    this.flag(null);
    const token = this.token.value;
    if (!token) return this.askForToken("To start runs, enter the access token.");
    for (const button of this.buttons) button.disabled = true;
    this.say("Checking…", "pending");
    try {
      await act(token);
    } catch (error) {
      this.failed(error);
    } finally {
      for (const button of this.buttons) button.disabled = false;
    }
  }

  /** @param {string} token */
  async predict(token) {
    const plan = /** @type {RunPlanModel} */ (await post("runs/check", await this.document(false), token));
    this.token.keep();
    this.say(planText(plan), plan.obstacle ? "pending" : "ok");
  }

  /**
   * @param {boolean} confirmed
   * @param {string} token
   */
  async start(confirmed, token) {
    const started = /** @type {StartedRunModel} */ (
      await post("runs", await this.document(confirmed), token)
    );
    this.token.keep();
    this.say(`Started: ${started.name}`, "ok");
    this.onChange();
  }

  /**
   * Cancels a run.
   * @param {string} name
   */
  cancel(name) {
    return this.send(async (token) => {
      await post("runs/cancellation", { name }, token);
      this.token.keep();
      this.say(`${name} ends.`, "ok");
      this.onChange();
    });
  }

  /** @param {unknown} error */
  failed(error) {
    if (!(error instanceof ApiError)) return this.say("The server did not answer. Try again.", "error");
    if (error.status === 401) {
      this.token.forget();
      return this.askForToken("The server refused the token.");
    }
    this.token.keep();
    if (error.code === "long") return this.confirm(error.message);
    this.flag(error.field);
    this.say(error.field ? `${error.field}: ${error.message}` : error.message, "error");
  }

  /** @param {string} text */
  confirm(text) {
    this.say("");
    byId("confirm-text", HTMLElement).textContent = `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
    this.dialog.returnValue = "no";
    this.dialog.showModal();
  }

  /** @param {string | null} field Marks the control of this field as wrong. */
  flag(field) {
    for (const wrong of this.form.querySelectorAll(".field.wrong")) wrong.classList.remove("wrong");
    const id =
      field === null ? undefined : (CONTROLS[field] ?? (field.includes(".") ? "settings" : undefined));
    if (id) document.getElementById(id)?.closest(".field")?.classList.add("wrong");
  }

  /** @param {string} reason */
  askForToken(reason) {
    this.token.ask();
    this.say(`${reason} The server prints its place when it starts.`, "error");
  }

  /**
   * @param {string} text
   * @param {"" | "ok" | "pending" | "error"} kind
   */
  say(text, kind = "") {
    this.message.textContent = text;
    this.message.dataset.kind = kind;
  }
}
