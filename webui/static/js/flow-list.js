// SPDX-License-Identifier: Apache-2.0
// The list of flows: those under way and those that ended, with a filter. The first page follows the network;
// an older one stays as it is.

/** @import { Address } from "./address.js" */
/** @import { ActiveFlowModel, ActiveFlowsAnswer, FlowModel, FlowsAnswer } from "./documents.gen.js" */
/** @import { Filter, State } from "./pure/address.js" */
/** @import { Model } from "./pure/model.js" */

import { get } from "./api.js";
import { byId } from "./dom.js";
import { FlowTable } from "./flow-table.js";
import { hostAddress } from "./hosts.js";
import { readState, START, writeState } from "./pure/address.js";
import { activeRow, endedRow, passes, query } from "./pure/flow-rows.js";
import { moment } from "./pure/times.js";

const PAGE = 100;
/** Answers in a row that are asked for one page, because each searches a part of the store. */
const MOST_ANSWERS = 10;
const EVERY_S = 2;

/** @typedef {{ flows: FlowModel[], active: ActiveFlowModel[], next: number | null, searchedTo: number | null }} Page */

export class FlowList {
  /**
   * @param {Model} model
   * @param {Address} address
   */
  constructor(model, address) {
    this.model = model;
    this.address = address;
    this.form = byId("flow-filter", HTMLFormElement);
    this.older = byId("flows-older", HTMLButtonElement);
    this.newest = byId("flows-newest", HTMLButtonElement);
    this.summary = byId("flows-summary", HTMLElement);
    this.table = new FlowTable(byId("flows", HTMLTableElement), {
      empty: "No flow passes this filter.",
      address: (host) => hostAddress(address, model, host),
      onSort: (sort) => address.set({ sort }),
    });
    /** @type {Page} */
    this.page = { flows: [], active: [], next: null, searchedTo: null };
    this.asked = 0;
    this.askedAt = 0;
    this.shown = "";
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("change", () => this.filter());
    this.form.addEventListener("reset", () => address.set({ filter: START.filter, before: null }));
    this.older.addEventListener("click", () => address.set({ before: this.page.next }));
    this.newest.addEventListener("click", () => address.set({ before: null }));
  }

  /** Takes the filter from its fields. A value that no flow can have is left out. */
  filter() {
    const given = Object.fromEntries(new FormData(this.form));
    const filter = /** @type {Filter} */ ({ ...this.address.state.filter, ...given });
    const state = readState(writeState({ ...this.address.state, filter, before: null }));
    this.address.set({ filter: state.filter, before: null });
    this.showFilter();
  }

  showFilter() {
    for (const [name, value] of Object.entries(this.address.state.filter)) {
      const field = this.form.elements.namedItem(name);
      if (field instanceof HTMLSelectElement) offer(field, value);
      if (field instanceof HTMLInputElement || field instanceof HTMLSelectElement) field.value = value;
    }
  }

  /** Whether it is time to ask for the first page again. @param {number} at */
  isDue(at) {
    const holds = this.model.held || this.table.isInUse || this.address.state.before !== null;
    return !holds && at - this.askedAt >= EVERY_S;
  }

  fillSchemes() {
    const field = this.form.elements.namedItem("scheme");
    if (field instanceof HTMLSelectElement && this.model.schemes.length >= field.options.length) {
      field.append(
        ...this.model.schemes
          .slice(field.options.length - 1)
          .map(({ name, title }) => new Option(title, name)),
      );
      this.showFilter();
    }
  }

  /** Shows the list of the address, and fetches it unless only the order or the form of times is another. */
  async adopt() {
    this.showFilter();
    if (this.shown === this.key(this.address.state)) this.draw();
    else await this.load();
  }

  /** @param {State} state */
  key({ filter, before }) {
    return JSON.stringify([filter, before]);
  }

  async load() {
    const number = ++this.asked;
    this.askedAt = this.model.now;
    const { state } = this.address;
    if (this.shown !== this.key(state)) this.table.table.setAttribute("aria-busy", "true");
    const page = await pageOf(state);
    if (number !== this.asked) return; // a later request has the answer
    this.page = page;
    this.shown = this.key(state);
    this.draw();
  }

  draw() {
    const { flows, active, next, searchedTo } = this.page;
    const { now, times } = this.model;
    const rows = [
      ...active.map((flow) => activeRow(flow, now, times)),
      ...flows.map((flow) => endedRow(flow, now, times)),
    ];
    const { before, sort } = this.address.state;
    this.table.show(rows, sort);
    this.table.table.setAttribute("aria-busy", "false");
    this.older.disabled = next === null;
    this.newest.disabled = before === null;
    const back = searchedTo === null ? "" : `, searched back to ${moment(searchedTo, now, times)}`;
    this.summary.textContent = `${active.length} active, ${flows.length} ended${back}`;
  }
}

/**
 * A page of the list: it goes on searching until it is full, there are no older flows, or it took MOST_ANSWERS.
 * @param {State} state
 * @returns {Promise<Page>}
 */
async function pageOf({ filter, before }) {
  /** @type {ActiveFlowsAnswer} */
  const { flows: active } = before === null ? await get("flows/active") : { flows: [] };
  /** @type {Page} */
  const page = {
    flows: [],
    active: active.filter((flow) => passes(flow, filter)),
    next: before,
    searchedTo: null,
  };
  for (let answers = 0; answers < MOST_ANSWERS && page.flows.length < PAGE; answers++) {
    const asked = query(filter, page.next, PAGE - page.flows.length);
    if (!asked) return { ...page, next: null };
    /** @type {FlowsAnswer} */
    const answer = await get("flows", asked);
    page.flows.push(...answer.flows);
    page.next = answer.next;
    page.searchedTo = answer.searched_to ?? page.searchedTo;
    if (answer.next === null) break;
  }
  return page;
}

/**
 * Offers the value, though it may not be among the options yet.
 * @param {HTMLSelectElement} select
 * @param {string} value
 */
function offer(select, value) {
  if (![...select.options].some((option) => option.value === value)) select.add(new Option(value, value));
}
