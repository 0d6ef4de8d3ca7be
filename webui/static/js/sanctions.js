// SPDX-License-Identifier: Apache-2.0
// The banner above the page that names the demoted hosts.

/** @import { SnapshotModel } from "./documents.gen.js" */

import { byId, element, setChildren } from "./dom.js";
import { sanctionText } from "./pure/sanctions.js";

/** @param {SnapshotModel} snapshot */
export function showSanctions(snapshot) {
  const banner = byId("sanctions", HTMLElement);
  const rows = snapshot.sanctions.map(sanctionText);
  banner.hidden = !rows.length;
  setChildren(banner, ...rows.map(paragraph));
}

/** @param {ReturnType<typeof sanctionText>} row */
function paragraph({ host, port, head, text }) {
  const made = element("p", {}, element("strong", { textContent: head }), ` ${text}`);
  made.dataset.host = host;
  made.dataset.port = port;
  return made;
}
