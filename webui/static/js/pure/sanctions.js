// SPDX-License-Identifier: Apache-2.0
// What the page says of a host that is demoted because its tags were wrong.

/** @import { Sanction } from "../types.js" */

import { bytes, clock, time } from "./format.js";

/**
 * @param {Sanction} sanction
 * @returns {{ host: string, port: string, head: string, text: string }}
 */
export function sanctionText(sanction) {
  const { host, port, flow, tag, offences } = sanction;
  const sentences = [
    `since ${clock(sanction.since)} at port ${port}.`,
    `Its flow ${flow} sent ${bytes(sanction.sent_bytes)} under tag ${tag} in ${seconds(sanction.duration_s)}.`,
    `A flow with correct tags can send at most ${bytes(sanction.limit_bytes)}.`,
    `The network treats all traffic of ${host} as background traffic until its tags have been correct for`,
    `${seconds(sanction.term_s)}.`,
    ...(offences > 1 ? [`This is offence ${offences}.`] : []),
  ];
  return { host, port, head: `${host} is demoted`, text: sentences.join(" ") };
}

/** @param {number} s */
const seconds = (s) => time(s * 1e6);
