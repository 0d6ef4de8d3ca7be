// SPDX-License-Identifier: Apache-2.0
// What the host view says of one host, as groups of facts.

/** @import { HostAnswer, HostStatusModel, LinkModel, SentModel } from "../documents.gen.js" */

import { age, bytes, digits, percent, rate, time } from "./format.js";

/** @typedef {{ name: string, text: string, state?: "good" | "bad", note?: string }} Fact */
/** @typedef {{ title: string, facts: Fact[] }} Group */

const NONE = "–";

/**
 * @param {HostAnswer} host
 * @returns {Group[]}
 */
export function hostFacts(host) {
  const beat = host.agent ? host.agent.status : null;
  return [
    { title: "Agent", facts: agentFacts(host, beat) },
    { title: "Mechanisms", facts: beat ? mechanisms(beat) : [] },
    { title: "Records", facts: beat ? recordFacts(beat) : [] },
    { title: "Flows", facts: flowFacts(host, beat) },
    { title: "Deadlines", facts: deadlineFacts(host) },
    { title: "Own link", facts: linkFacts(host, beat) },
  ].filter(({ facts }) => facts.length);
}

/**
 * @param {HostAnswer} host
 * @param {HostStatusModel | null} beat
 * @returns {Fact[]}
 */
function agentFacts({ agent, place, sanctions }, beat) {
  /** @type {Fact[]} */
  const facts = [];
  if (!agent || !beat) facts.push({ name: "State", text: "No agent reports", state: "bad" });
  else {
    facts.push({ name: "State", text: agent.alive ? "Up" : "Away", state: agent.alive ? "good" : "bad" });
    facts.push({ name: "Last heartbeat", text: `${age(agent.age_s)} ago` });
    facts.push({ name: "Version", text: beat.version || "Unknown" });
    facts.push({ name: "Policy version", text: String(beat.policy_version) });
  }
  const addresses = [place?.ipv4, place?.ipv6].filter(Boolean).join(", ");
  if (addresses) facts.push({ name: "Address", text: addresses });
  if (place?.port) facts.push({ name: "Switch port", text: place.port });
  for (const { tag } of sanctions) facts.push({ name: "Demoted", text: `Wrong tag ${tag}`, state: "bad" });
  return facts;
}

/**
 * @param {HostStatusModel} beat
 * @returns {Fact[]}
 */
function mechanisms(beat) {
  const control = { name: "Control", text: beat.congestion_control };
  const usual = { name: "Default control", text: beat.default_congestion_control };
  return [
    control,
    usual,
    works("Tags", beat.tagger, ""),
    ...(beat.guests ? [{ name: "Tagged guests", text: `${beat.guests} interfaces` }] : []),
    works("Declarations", beat.hook, beat.hook_problem),
    works("Flow watch", beat.watch.watching, beat.watch.problem),
    { name: "Real-time priority", text: beat.realtime ? "On" : "Off" },
    count("Refused controls", beat.controls_refused, "connections"),
    count("Undeclared", beat.flows_undeclared, "flows"),
    ...(beat.fallback_reason ? [bad("Lacks", beat.fallback_reason)] : []),
  ];
}

/** @type {(name: string, on: boolean, problem: string) => Fact} */
function works(name, on, problem) {
  return { name, text: on ? "On" : "Off", state: on ? "good" : problem ? "bad" : undefined, note: problem };
}

/** @type {(name: string, value: number, unit: string) => Fact} */
function count(name, value, unit) {
  return { name, text: `${value} ${unit}`, state: value ? "bad" : undefined };
}

/** @type {(name: string, text: string) => Fact} */
const bad = (name, text) => ({ name, text, state: "bad" });

/**
 * @param {HostStatusModel} beat
 * @returns {Fact[]}
 */
function recordFacts(beat) {
  return [
    { name: "Spool", text: `${beat.spool_depth} records` },
    count("Refused", beat.records_refused, "records"),
    count("Lost", beat.records_dropped, "records"),
    count("Not watched", beat.watch.lost, "connections"),
    ...(beat.disk_problem ? [bad("Disk", beat.disk_problem)] : []),
  ];
}

/**
 * @param {HostAnswer} host
 * @param {HostStatusModel | null} beat
 * @returns {Fact[]}
 */
function flowFacts({ name, active, sent }, beat) {
  const round = active.filter((flow) => flow.src === name).flatMap(({ srtt_us }) => srtt_us ?? []);
  return [
    { name: "Active, scheduled", text: beat ? String(beat.flows_active) : NONE },
    { name: "Active, own", text: beat ? String(beat.watch.living) : NONE },
    { name: `Sent, last ${age(sent.window_s)}`, text: sentText(sent) },
    {
      name: "Mean slowdown",
      text: sent.slowdown.all.mean === null ? NONE : `${digits(sent.slowdown.all.mean)} ×`,
    },
    { name: "Small flows, p99", text: sent.fct.small.p99 === null ? NONE : time(sent.fct.small.p99) },
    {
      name: "Round trip, active",
      text: round.length ? `${time(middle(round))} median of ${round.length}` : NONE,
    },
    { name: "Round trip, ended", text: ended(sent) },
    {
      name: "Controls",
      text:
        Object.entries(sent.controls)
          .map(([control, n]) => `${control} ${n}`)
          .join(", ") || NONE,
    },
  ];
}

/** @param {SentModel} sent */
const sentText = ({ flows, unfinished }) => `${flows}${unfinished ? `, ${unfinished} unfinished` : ""}`;

/** @param {SentModel} sent */
function ended({ srtt_us }) {
  if (srtt_us.p50 === null || srtt_us.p99 === null) return NONE;
  return `${time(srtt_us.p50)} median, ${time(srtt_us.p99)} p99`;
}

/** @param {number[]} values At least one. */
function middle(values) {
  return [...values].sort((a, b) => a - b)[Math.floor((values.length - 1) / 2)];
}

/**
 * @param {HostAnswer} host
 * @returns {Fact[]}
 */
function deadlineFacts({ name, at, active, sent: { deadlines, window_s } }) {
  const { n, missed, miss_ratio } = deadlines;
  const own = active.filter((flow) => flow.src === name).flatMap(({ deadline_at }) => deadline_at ?? []);
  const late = own.filter((deadline) => deadline < at).length;
  const share = miss_ratio === null ? "" : ` (${percent(miss_ratio)})`;
  return [
    { name: `Met, last ${age(window_s)}`, text: String(n - missed), state: n > missed ? "good" : undefined },
    { name: "Missed", text: `${missed}${share}`, state: missed ? "bad" : undefined },
    { name: "Under way", text: String(own.length - late) },
    { name: "Passed, not ended", text: String(late), state: late ? "bad" : undefined },
  ];
}

/**
 * @param {HostAnswer} host
 * @param {HostStatusModel | null} beat
 * @returns {Fact[]}
 */
function linkFacts({ link, place }, beat) {
  if (!link) return beat?.link_problem ? [bad("Queues", beat.link_problem)] : [];
  const queues = beat?.link_queues
    ? `${beat.link_queues}${beat.link_problem ? `: ${beat.link_problem}` : ""}`
    : "One";
  return [
    { name: "Sending", text: shareText(link.sent_bps, place?.rate_bps ?? null) },
    { name: "Receiving", text: shareText(link.received_bps, place?.rate_bps ?? null) },
    { name: "Waiting", text: bytes(link.waiting_bytes) },
    count("Dropped", link.dropped, "packets"),
    { name: "Queues", text: queues, state: beat?.link_problem ? "bad" : undefined },
    ...queueFacts(link),
  ];
}

/**
 * Queues that have carried anything.
 * @param {LinkModel} link
 * @returns {Fact[]}
 */
function queueFacts({ queues }) {
  return queues.flatMap(({ sent_bytes, dropped, waiting_bytes }, index) => {
    const lost = dropped ? `, ${dropped} dropped` : "";
    const text = `${bytes(sent_bytes)}, ${bytes(waiting_bytes)} waiting${lost}`;
    return sent_bytes || waiting_bytes || dropped ? [{ name: `Queue ${index}`, text }] : [];
  });
}

/** @type {(bps: number | null, capacity: number | null) => string} */
function shareText(bps, capacity) {
  if (bps === null) return NONE;
  return capacity ? `${rate(bps)} (${percent(bps / capacity)})` : rate(bps);
}
