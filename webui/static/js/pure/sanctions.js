// SPDX-License-Identifier: Apache-2.0
// What the page says of a host that is demoted because its tags were wrong.

/** @import { SanctionModel } from "../documents.gen.js" */

import { bytes, clock, rate, time } from "./format.js";

const URGENCY_FIRST = 41;
const URGENCY_LAST = 56;

/**
 * @param {SanctionModel} sanction
 * @returns {{ host: string, port: string, head: string, text: string }}
 */
export function sanctionText(sanction) {
  const { host, port, offences } = sanction;
  const sentences = [
    `since ${clock(sanction.since)} at port ${port}.`,
    ...proof(sanction),
    `The network treats all traffic of ${host} as background traffic until its tags have been correct for`,
    `${seconds(sanction.term_s)}.`,
    sanction.rate_bps === null
      ? "Its rate is not limited."
      : `It may send ${rate(sanction.rate_bps)} at most.`,
    ...(offences > 1 ? [`This is offence ${offences}.`] : []),
  ];
  return { host, port, head: `${host} is demoted`, text: sentences.join(" ") };
}

/** @param {SanctionModel} sanction */
function proof({ flow, tag, sent_bytes, limit_bytes, duration_s }) {
  const sent = `${bytes(sent_bytes)} under tag ${tag} in ${seconds(duration_s)}`;
  return tag >= URGENCY_FIRST && tag <= URGENCY_LAST
    ? [
        `It sent ${sent}.`,
        `The deadlines of its flows explain at most ${bytes(limit_bytes)} of all urgent tags.`,
      ]
    : [`Its flow ${flow} sent ${sent}.`, `A flow with correct tags can send at most ${bytes(limit_bytes)}.`];
}

/** @param {number} s */
const seconds = (s) => time(s * 1e6);
