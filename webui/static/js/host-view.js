// SPDX-License-Identifier: Apache-2.0
// The view of one host: its agent, its flows, its deadlines, and its own link.

/** @import { Address } from "./address.js" */
/** @import { HostAnswer } from "./documents.gen.js" */
/** @import { Fact, Group } from "./pure/host-facts.js" */
/** @import { Model } from "./pure/model.js" */

import { ApiError, get } from "./api.js";
import { byId, element, setChildren, setOptions } from "./dom.js";
import { FlowTable } from "./flow-table.js";
import { chooseByClick, hostAddress, hostNames } from "./hosts.js";
import { START } from "./pure/address.js";
import { activeRow, endedRow } from "./pure/flow-rows.js";
import { hostFacts } from "./pure/host-facts.js";

const EVERY_S = 2;

export class HostView {
  /**
   * @param {Model} model
   * @param {Address} address
   */
  constructor(model, address) {
    this.model = model;
    this.address = address;
    this.card = byId("host-view", HTMLElement);
    this.select = byId("host", HTMLSelectElement);
    this.facts = byId("host-facts", HTMLElement);
    this.sort = START.sort;
    /** @type {HostAnswer | null} */
    this.answer = null;
    this.askedAt = 0;
    /** The host whose flows the table has. */
    this.listed = "";
    this.table = new FlowTable(byId("host-flows", HTMLTableElement), {
      empty: "No flow from or to this host lately.",
      address: (host) => (host === this.host ? "" : hostAddress(address, model, host)),
      onSort: (sort) => {
        this.sort = sort;
        this.draw();
      },
    });
    this.select.addEventListener("change", () => address.set({ host: this.select.value }));
    byId("host-list", HTMLButtonElement).addEventListener("click", () => this.listFlows());
    chooseByClick(address, () => this.card.scrollIntoView({ block: "nearest" }));
  }

  get host() {
    return this.address.state.host;
  }

  /** Shows in the flow list what this host has sent and received. */
  listFlows() {
    this.address.set({ filter: { ...START.filter, host: this.host }, before: null });
    byId("flow-list", HTMLElement).scrollIntoView({ block: "nearest" });
  }

  /** Whether it is time to ask for the chosen host again. @param {number} at */
  isDue(at) {
    return Boolean(this.host) && !this.model.held && at - this.askedAt >= EVERY_S;
  }

  /** Shows the host of the address. */
  async load() {
    this.fill();
    this.askedAt = this.model.now;
    const { host } = this;
    if (this.answer?.name !== host)
      this.clear(host ? "Loading…" : "Choose a host here or in the drawing of the network.");
    byId("host-list", HTMLButtonElement).hidden = !host;
    if (!host) return;
    try {
      /** @type {HostAnswer} */
      const answer = await get(`hosts/${encodeURIComponent(host)}`);
      if (host !== this.host) return; // another one was chosen meanwhile
      this.answer = answer;
      this.draw();
    } catch (error) {
      if (host === this.host)
        this.clear(error instanceof ApiError ? error.message : "The server does not answer.");
    }
  }

  fill() {
    const names = hostNames(this.model);
    const offered = this.host && !names.includes(this.host) ? [...names, this.host] : names;
    setOptions(this.select, [
      { value: "", text: "No host" },
      ...offered.map((name) => ({ value: name, text: name })),
    ]);
    this.select.value = this.host;
  }

  /** @param {string} text */
  clear(text) {
    this.answer = null;
    this.card.dataset.host = "";
    this.facts.replaceChildren(element("p", { className: "empty", textContent: text }));
    byId("host-rows", HTMLElement).hidden = true;
  }

  draw() {
    if (!this.answer) return;
    const { active, ended, name, at } = this.answer;
    const { times } = this.model;
    this.card.dataset.host = name;
    setChildren(this.facts, ...hostFacts(this.answer).map(groupElement));
    byId("host-rows", HTMLElement).hidden = false;
    if (this.table.isInUse && this.listed === name) return;
    this.listed = name;
    const rows = [
      ...active.map((flow) => activeRow(flow, at, times)),
      ...ended.map((flow) => endedRow(flow, at, times)),
    ];
    this.table.show(rows, this.sort);
  }
}

/** @param {Group} group */
function groupElement({ title, facts }) {
  const made = element(
    "section",
    {},
    element("h3", { textContent: title }),
    element("dl", {}, ...facts.flatMap(pair)),
  );
  made.dataset.group = title;
  return made;
}

/** @param {Fact} fact */
function pair({ name, text, state, note }) {
  const value = element(
    "dd",
    { title: note ?? "" },
    text,
    ...(note ? [element("small", { textContent: note })] : []),
  );
  if (state) value.dataset.state = state;
  return [element("dt", { textContent: name }), value];
}
