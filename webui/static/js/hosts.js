// SPDX-License-Identifier: Apache-2.0
// Which hosts there are, and how one of them is chosen: in the list, in the drawing of the network, or by a link.

/** @import { Address } from "./address.js" */
/** @import { Model } from "./pure/model.js" */

import { writeState } from "./pure/address.js";
import { naturally } from "./pure/order.js";

/**
 * The names of all hosts, in natural order.
 * @param {Model} model
 */
export function hostNames({ topology, snapshot }) {
  const agents = snapshot?.health.agents.filter((agent) => agent.kind === "host") ?? [];
  const known = [...(topology?.hosts ?? []), ...agents].map(({ name }) => name);
  return [...new Set(known)].sort(naturally);
}

/**
 * The address at which the page shows this host; empty if there is no such host.
 * @param {Address} address
 * @param {Model} model
 * @param {string} host
 */
export function hostAddress(address, model, host) {
  if (!hostNames(model).includes(host)) return "";
  return location.pathname + writeState({ ...address.state, host }, location.search);
}

/**
 * Lets a click on a host's link or on its place in the drawing choose the host, without loading the page again.
 * @param {Address} address
 * @param {() => void} chosen
 */
export function chooseByClick(address, chosen) {
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || !(event.target instanceof Element)) return;
    const found = event.target.closest("[data-host]");
    const host = found instanceof HTMLElement || found instanceof SVGElement ? found.dataset.host : "";
    if (!host) return;
    event.preventDefault();
    address.set({ host });
    chosen();
  });
}
