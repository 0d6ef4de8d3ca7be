// SPDX-License-Identifier: Apache-2.0
// Hosts that are demoted because their tags were not true: above everything else, and gone when they are restored.

import { bytes, clock, time } from "./pure/format.js";

export function showSanctions(snapshot) {
  const element = document.getElementById("sanctions");
  const rows = snapshot.sanctions.map(row);
  element.hidden = !rows.length;
  // Text that has not changed is not set again: a screen reader would read it out every second.
  const key = JSON.stringify(rows);
  if (element.dataset.key === key) return;
  element.dataset.key = key;
  element.replaceChildren(...rows.map(paragraph));
}

function row(s) {
  const seconds = time(s.term_s * 1e6);
  return {
    host: s.host,
    port: s.port,
    head: `${s.host} is demoted`,
    text:
      `since ${clock(s.since)}, at ${s.port}: under tag ${s.tag} its flow ${s.flow} has sent ${bytes(s.sent_bytes)} within ` +
      `${time(s.duration_s * 1e6)}; an honest one can have sent ${bytes(s.limit_bytes)}. All that it sends is background traffic until ` +
      `its tags have been true for ${seconds}${s.offences > 1 ? ` (offence ${s.offences})` : ""}.`,
  };
}

function paragraph({ host, port, head, text }) {
  const element = document.createElement("p");
  element.dataset.host = host;
  element.dataset.port = port;
  const strong = document.createElement("strong");
  strong.textContent = head;
  element.append(strong, ` ${text}`);
  return element;
}
