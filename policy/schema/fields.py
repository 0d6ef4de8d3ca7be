# SPDX-License-Identifier: Apache-2.0
"""The one table of a policy's fields. Parser, validator, JSON schema, API models, form and reference come from it.

To add a field, add one entry here and the code that uses its value. An entry has a kind (with bounds and unit),
a default and a help text. `policy/schema/field_kinds.py` holds what depends on the scheme.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.policy.errors import FieldError, refuse_unknown
from sluice.policy.schema import field_kinds as kinds
from sluice.policy.schema.entries import Entry, titled
from sluice.policy.schema.field_kinds import Draft, Override, PolicyEntry, policy_field
from sluice.policy.schema.kinds import Choice, Duration, Flag, ListOf, Number, Schema, Size, Whole
from sluice.policy.schemes import SCHEMES, Scheme, epochs, ports, scheme_named
from sluice.policy.tags import DEFAULT_IDLE_GAP_NS
from sluice.policy.units import NS_PER_MS, NS_PER_S


@dataclass(frozen=True)
class PolicyFields:
    """The values of all fields. `sluice.policy.schema.desired.Policy` adds what follows from them."""

    scheme: str = policy_field(
        lambda draft: Choice(tuple(SCHEMES)),  # plugins add schemes later
        "The scheme that hosts and ports carry out.",
        default=lambda draft: draft.scheme.name,
    )
    queues: int = policy_field(
        kinds.queue_counts,
        "Priorities of a port. Queue 0 is served first.",
        default=lambda draft: draft.scheme.queues,
    )
    most_threshold: int | None = policy_field(
        Size(1, kinds.MAX_THRESHOLD_BYTES, bare=True),
        "No threshold that a port computes is above this, rounded down to an edge of the tags. A lower value serves"
        " large flows sooner, and flows that are a little smaller later. By default there is no such limit.",
        default=None,
        applies=kinds.ONLINE,
    )
    thresholds: tuple[int, ...] = policy_field(
        kinds.thresholds,
        "Demotion thresholds, increasing. A flow that has sent more than a threshold is demoted. Adaptive schemes"
        " start from these values.",
        default=kinds.default_thresholds,
        applies=kinds.THRESHOLDS,
        absent=(),
    )
    percentiles: tuple[float, ...] = policy_field(
        kinds.percentiles,
        "Percentiles of completed flow sizes that become the thresholds, increasing.",
        default=kinds.default_percentiles,
        applies=kinds.PERCENTILES,
        absent=(),
    )
    window_ms: int = policy_field(
        Whole(10, 3_600_000, "ms"),
        "Sliding window in which completed flows are counted.",
        title="Window",
        default=500,
        applies=kinds.ADAPTIVE,
        of_network=True,
    )
    interval_ms: int = policy_field(
        Whole(10, 600_000, "ms"),
        "Time between two adjustments of the thresholds.",
        title="Interval",
        default=100,
        applies=kinds.ADAPTIVE,
        of_network=True,
    )
    min_flows: int = policy_field(
        Whole(1, 1_000_000, "flows"),
        "A port adjusts its thresholds only if at least this many flows completed in the window.",
        title="Least flows",
        default=lambda draft: draft.scheme.min_flows,
        applies=kinds.ADAPTIVE,
    )
    robust_ends: bool = policy_field(
        Flag(),
        "A port believes the ends of flows only as far as its payload and other ingress ports confirm them. false:"
        " every FIN counts.",
        default=True,
        applies=kinds.ADAPTIVE,
    )
    mark_at: int | None = policy_field(
        kinds.MARK,
        "K: the port marks ECN when its backlog, or its phantom queue, exceeds this value. By default, the network's K:"
        " rate times round trip, at least 12 packets, and 65 packets at 10 Gb/s.",
        default=kinds.default_mark(0),
        applies=kinds.MARKS_AT,
    )
    mark_at_core: int | None = policy_field(
        kinds.MARK,
        "K of the links between switches, if it differs from mark_at.",
        title="Core marks at",
        default=None,
        applies=kinds.MARKS_PORT,
        of_network=True,
    )
    mark_min: int | None = policy_field(
        kinds.MARK,
        "The port marks no packet up to this backlog. Above it, the probability grows linearly up to mark_max.",
        title="Marks from",
        default=kinds.default_mark(0),
        applies=kinds.MARKS_RAMP,
    )
    mark_max: int | None = policy_field(
        kinds.MARK,
        "The port marks every packet above this backlog. Greater than mark_min, less than buffer.",
        title="Marks to",
        default=kinds.default_mark(1),
        applies=kinds.MARKS_RAMP,
    )
    mark_chance: float | None = policy_field(
        Number(0, 1, above=True),
        "The probability of a mark at mark_max. Above mark_max, it is 1.",
        title="Chance of marks",
        default=lambda _: 1.0,
        applies=kinds.MARKS_RAMP,
    )
    buffer: int = policy_field(
        Size(ports.MIN_BUFFER_BYTES, ports.MAX_BACKLOG_BYTES, bare=True),
        "Size of a port's buffer, which all its queues share. By default 3.7 times the network's K, which is 360 KB at"
        " 10 Gb/s, or 3.7 times a greater mark that is named, up to 360 KB. In schemes that mark by queue, 20 times"
        " mark_at.",
        default=kinds.default_buffer,
        of_network=True,
    )
    mark_by: str | None = policy_field(
        Choice(tuple(ports.MarkBy)),
        "The backlog that is compared with mark_at: of the whole port, of the packet's own queue, or of all queues that"
        " are served no later than the packet's. By default the port. In scheme sluice the queue, if the buffer is at"
        " least 15 times mark_at.",
        title="Marks by",
        default=kinds.default_mark_by,
        applies=kinds.MARKS_PORT,
    )
    last_mark_factor: int | None = policy_field(
        Whole(1, ports.MAX_MARK_FACTOR),
        "In the last queue, the marking threshold is this multiple of mark_at. That queue waits for all others, and a"
        " longer one uses the link at once when its turn comes.",
        title="Last marks at",
        default=kinds.default_last_mark_factor,
        applies=kinds.MARKS_PORT,
    )
    least_threshold: int | None = policy_field(
        Size(1, kinds.MAX_THRESHOLD_BYTES, bare=True),
        "No threshold that a port computes is below this. It should be about a bandwidth-delay product, so that a flow"
        " stays in one queue in its first round trip. By default mark_at, and 1 if the port does not mark by queue.",
        default=kinds.default_least_threshold,
        applies=kinds.ONLINE,
    )
    growth: int | None = policy_field(
        Whole(1, kinds.MAX_GROWTH, "packets"),
        "By how much a window without marks enlarges the congestion window. By default 1, and an eighth of mark_at in"
        " scheme sluice.",
        default=kinds.default_growth,
        applies=kinds.GROWS,
    )
    parameters: kinds.ParameterValues | None = policy_field(
        kinds.parameters,
        "Values of the parameters that the congestion control has.",
        default=kinds.default_parameters,
        applies=kinds.PARAMETERS,
    )
    urgent_first: bool = policy_field(
        Flag(),
        "A port that runs out of buffer drops what is least urgent (dataplane/laws/drop_order.h), and background"
        " traffic marks no other packet. Otherwise it drops what arrives.",
        default=lambda draft: draft.scheme.urgent_first,
        applies=kinds.PRIORITIES,
        absent=False,
    )
    shares: tuple[float, ...] | None = policy_field(
        kinds.shares,
        "Guaranteed part of the link for each queue, at most 1 in all. The first queue with packets gets the rest."
        " Null or empty: strict priorities.",
        default=kinds.default_shares,
        applies=kinds.PRIORITIES,
        null_is_value=True,
    )
    flow_queues: bool = policy_field(
        Flag(),
        "Each flow has a queue of its own inside its priority (FISH; dataplane/laws/dqs.h).",
        default=lambda draft: draft.scheme.flow_queues,
        applies=kinds.PRIORITIES,
        absent=False,
    )
    sub_queues: int | None = policy_field(
        Whole(1, kinds.MAX_SUB_QUEUES),
        "Flow queues in each priority. A switch port of the testbed has 8 of them.",
        title="Sub-queues",
        default=kinds.MAX_SUB_QUEUES,
        applies=kinds.FLOW_QUEUES,
    )
    release: int | None = policy_field(
        Duration(0, 60 * NS_PER_S, bare=True),
        # FISH gives no number, only "for long". The default is longer than a round trip,
        # so a flow keeps its queue from one window to the next.
        "How long an empty flow queue stays reserved for its flow.",
        title="Release after",
        default=NS_PER_MS,
        applies=kinds.FLOW_QUEUES,
    )
    urgent_after: int | None = policy_field(
        Size(0, kinds.MAX_THRESHOLD_BYTES, bare=True),
        "A deadline flow has the tags of any other flow until it has sent this much.",
        default=lambda draft: draft.scheme.urgent_after_bytes,
        applies=kinds.TAGS_URGENCY,
    )
    urgent_share: float | None = policy_field(
        Number(0, 1, above=True),
        "Part of its link that a host may use for urgent packets, as a mean over ten seconds. Beyond that, its urgent"
        " packets count as untagged. 1: no limit.",
        default=0.5,
        applies=kinds.TAGS_URGENCY,
    )
    throughput_factors: tuple[int, ...] = policy_field(
        ListOf(Whole(1, epochs.MAX_FACTOR), shortest=1, longest=kinds.MAX_QUEUES - 1, increasing=True),
        "How many full frames a host may send in a network epoch at level 1, 2 and so on, increasing. Levels beyond the"
        " list have no limit. 1 bounds the latency; a level with factor f is bounded while one host of f sends.",
        default=lambda draft: draft.scheme.throughput_factors,
        applies=kinds.LEVELS,
        absent=(),
    )
    epoch: int | None = policy_field(
        Duration(1, NS_PER_S, bare=True),
        "Network epoch: the time in which a host may send its throughput factor in frames, and the bound of level 1's"
        " latency. By default it follows from the network: two frames of each host at the slowest link, and what"
        " the switches of a path add.",
        title="Network epoch",
        default=None,
        applies=kinds.LEVELS,
    )
    host_queues: bool = policy_field(
        Flag(),
        "Hosts serve their own link by the same queues, at host_thresholds. A host of a real network does"
        " so only where its agent has the setting queues_at. Otherwise a host's link is one queue.",
        default=True,
        applies=kinds.READS_TAGS,
        absent=False,
    )
    host_thresholds: tuple[int, ...] | None = policy_field(
        kinds.thresholds,
        "Thresholds of the hosts' own links, which no controller adapts. By default those of the policy.",
        default=None,
        applies=kinds.THRESHOLDS,
    )
    untagged_queue: int = policy_field(
        lambda draft: Whole(0, draft.queues - 1),
        "Queue of packets without a tag. By default the last one.",
        default=lambda draft: draft.queues - 1,
    )
    idle_gap_ms: int = policy_field(
        Whole(1, 60_000, "ms"),
        "A flow ends when its direction of the connection sends no data for this long.",
        title="Idle gap",
        default=DEFAULT_IDLE_GAP_NS // NS_PER_MS,
        of_network=True,
    )
    tag_burst: int | None = policy_field(
        Size(0, 10**6, bare=True),
        "Maximum payload that leaves a host under one tag. By default the most that an agent reports of its host:"
        " mostly 14600. A host that sends more under a tag than its flows can send is demoted. 0: hosts are not"
        " checked.",
        default=None,
        applies=kinds.READS_TAGS,
        of_network=True,
    )
    demoted_share: float | None = policy_field(
        Number(0, 1, above=True),
        "Part of its link that a demoted host may use at most. Its switch drops the rest. 1: no limit.",
        default=0.05,
        applies=kinds.READS_TAGS,
    )
    reserved_dscp: tuple[int, ...] = policy_field(
        ListOf(Whole(ports.LOWEST, ports.HIGHEST), longest=ports.MOST, increasing=True),
        "DSCPs that belong to others, increasing: hosts write no tag with these values, and packets that have one keep"
        " it.",
        title="Reserved DSCPs",
        default=(),
        absent=(),
        of_network=True,
    )
    reserved_queue: int = policy_field(
        lambda draft: Whole(0, draft.queues - 1),
        "Queue of packets with a reserved DSCP.",
        default=0,
        of_network=True,
    )
    overrides: tuple[Override, ...] = policy_field(
        kinds.overrides,
        "Thresholds that are fixed or frozen at some ports. The last override that names a port decides.",
        default=(),
        applies=kinds.THRESHOLDS,
        absent=(),
    )
    acts_at: tuple[str, ...] = policy_field(
        kinds.PORT_NAMES,
        'Ports at which the policy acts: "s1:2", all ports of a switch ("s1:*") or all ports ("*"). Other ports count,'
        " and compute thresholds, but no packet changes its queue and none is marked. Empty: Sluice only watches.",
        default=("*",),
        of_network=True,
    )
    acts_on: tuple[str, ...] = policy_field(
        kinds.HOST_NAMES,
        'Hosts on which the policy acts, by the names of their agents: "web1", "web*" or "*". Other hosts write no DSCP'
        " and keep their congestion control. None does while `acts_at` is empty.",
        default=("*",),
        of_network=True,
    )


POLICY_FIELDS: tuple[PolicyEntry, ...] = tuple(
    PolicyEntry(field.name, **{**field.metadata, "title": field.metadata["title"] or titled(field.name)})
    for field in dataclasses.fields(PolicyFields)
)


def read_fields(
    document: Mapping[str, Any], network_mark_bytes: int = ports.REFERENCE_MARK_BYTES
) -> dict[str, Any]:
    """Return the value of every field. Raises FieldError that names the first bad field."""
    scheme = scheme_of(document)
    values: dict[str, Any] = {}
    for field in POLICY_FIELDS:
        values[field.name] = field.read(document, Draft(scheme, values, network_mark_bytes))
    return values


def scheme_of(document: object) -> Scheme:
    """Return the scheme of a policy document. Raises FieldError, also if the document has an unknown key."""
    if not isinstance(document, Mapping):
        raise FieldError("policy", "must be an object with at least a scheme")
    refuse_unknown(document, [field.name for field in POLICY_FIELDS])
    return scheme_named(document.get("scheme"))


def demotions_of(document: Mapping[str, Any]) -> int:
    """Return the number of thresholds that the policy of this document has. Raises FieldError."""
    scheme = scheme_named(document.get("scheme"))
    queues = next(field for field in POLICY_FIELDS if field.name == "queues")
    return scheme.queue_rule.demotions(queues.read(document, Draft(scheme)))


ABSENT = "–"
"""The text of a value that is not there."""


def field_text(scheme: str, name: str, value: Any) -> str:
    """Return a value of a policy's document. `value` is as in JSON."""
    if value is None or value == []:
        return ABSENT
    field = next(field for field in POLICY_FIELDS if field.name == name)
    if name == "overrides":
        value = [Override.of_document(document) for document in value]
    return field.kind_of(Draft(scheme_named(scheme))).show(value)


def scheme_fields(scheme: Scheme) -> list[Entry]:
    """The fields that policies of this scheme use, without the field `scheme` itself."""
    candidates = [field.entry(scheme) for field in POLICY_FIELDS if field.name != "scheme"]
    return [used for used in candidates if used is not None]


def scheme_schema(scheme: Scheme) -> Schema:
    """JSON schema of this scheme's policies."""
    properties = {field.name: field.schema(scheme) for field in POLICY_FIELDS}
    properties["scheme"] = {"const": scheme.name, "type": "string"}
    return {"type": "object", "properties": properties, "required": ["scheme"], "additionalProperties": False}
