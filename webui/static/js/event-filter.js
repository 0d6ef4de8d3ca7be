// SPDX-License-Identifier: Apache-2.0
// The form that filters the events. Its values are in the page's address.

/** @import { EventFilter as Filter } from "./pure/event-filter.js" */
/** @import { EventModel } from "./documents.gen.js" */

import { byId, setOptions, setText } from "./dom.js";
import { FILTER_KEYS, filterOf, passes, placesOf, withFilter } from "./pure/event-filter.js";
import { eventTitle } from "./pure/events.js";
import { naturally } from "./pure/order.js";

export class EventFilter {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.form = byId("event-filter", HTMLFormElement);
    this.kinds = byId("event-kind", HTMLSelectElement);
    this.places = byId("event-places", HTMLDataListElement);
    this.count = byId("event-count", HTMLElement);
    this.clear = byId("event-clear", HTMLButtonElement);
    this.filter = filterOf(location.search);
    this.showFilter();
    this.form.addEventListener("input", () => this.changed());
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("reset", () => setTimeout(() => this.changed()));
    addEventListener("popstate", () => {
      this.filter = filterOf(location.search);
      this.showFilter();
      this.onChange();
    });
  }

  showFilter() {
    // A select keeps only values that it offers, so a kind is offered before an event has it.
    this.offerKinds([]);
    for (const key of FILTER_KEYS) this.input(key).value = this.filter[key];
  }

  /** @param {keyof Filter} key */
  input(key) {
    const found = this.form.elements.namedItem(key);
    if (found instanceof HTMLInputElement || found instanceof HTMLSelectElement) return found;
    throw new Error(`the filter has no ${key}`);
  }

  changed() {
    for (const key of FILTER_KEYS) this.filter[key] = this.input(key).value;
    const { pathname, search, hash } = location;
    history.replaceState(history.state, "", pathname + withFilter(search, this.filter) + hash);
    this.onChange();
  }

  /**
   * The events that the list shows, and offers the kinds and places of all.
   * @param {EventModel[]} events
   * @param {(event: EventModel) => string} textOf
   */
  chosen(events, textOf) {
    this.offerKinds(events.map(({ kind }) => kind));
    const places = [...new Set(events.flatMap(placesOf))].sort(naturally);
    setOptions(
      this.places,
      places.map((place) => ({ value: place, text: place })),
    );
    const shown = events.filter((event) => passes(this.filter, event, textOf(event)));
    const isOn = FILTER_KEYS.some((key) => this.filter[key]);
    setText(this.count, isOn ? `${shown.length} of ${events.length}` : "");
    this.clear.hidden = !isOn;
    return shown;
  }

  /** @param {string[]} kinds */
  offerKinds(kinds) {
    const all = new Set([...kinds, ...(this.filter.kind ? [this.filter.kind] : [])]);
    const known = [...all].sort();
    const options = known.map((kind) => ({ value: kind, text: eventTitle(kind) }));
    setOptions(this.kinds, [{ value: "", text: "Any kind" }, ...options]);
    this.kinds.value = this.filter.kind;
  }
}
