// SPDX-License-Identifier: Apache-2.0

import assert from "node:assert/strict";
import test from "node:test";
import { sanctionText } from "../../../../webui/static/js/pure/sanctions.js";

process.env.TZ = "UTC";

const SANCTION = {
  port: "s1:2",
  host: "h2",
  since: 1_700_000_000,
  flow: "TCP 10.0.0.2:40000 > 10.0.0.1:80",
  tag: 1,
  sent_bytes: 1_200_000,
  limit_bytes: 475_000,
  duration_s: 0.95,
  offences: 1,
  term_s: 10,
  rate_bps: 1_000_000,
};

test("sanctionText: the proof, the consequence, and when it ends", () => {
  const { head, text } = sanctionText(SANCTION);
  assert.equal(head, "h2 is demoted");
  assert.equal(
    text,
    "since 22:13:20 at port s1:2. Its flow TCP 10.0.0.2:40000 > 10.0.0.1:80 sent 1.2 MB under tag 1 in 950 ms. " +
      "A flow with correct tags can send at most 475 KB. The network treats all traffic of h2 as background " +
      "traffic until its tags have been correct for 10 s. It may send 1 Mb/s at most.",
  );
});

test("sanctionText: a host whose switch cannot limit it", () => {
  assert.match(sanctionText({ ...SANCTION, rate_bps: null }).text, / Its rate is not limited\.$/);
});

test("sanctionText: urgency that no deadline explains names no flow", () => {
  const { text } = sanctionText({ ...SANCTION, tag: 56, flow: "all urgent packets" });
  assert.match(
    text,
    /It sent 1\.2 MB under tag 56 in 950 ms\. The deadlines of its flows explain at most 475 KB/,
  );
});
