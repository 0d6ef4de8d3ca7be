# SPDX-License-Identifier: Apache-2.0
"""The desired policy: one validated document that says what every port and host must do.

The REST API stores policies, and the [scheme] table of a scenario holds one. The controller reconciles the switches
towards the newest. The fields are in `policy/schema/fields.py`; this module adds what follows from their values.

What a port does follows from a policy in two parts: its queue map, which is the queue of each tag, and its behaviour,
which is marking, buffer, shares and flow queues.

Names of ports that the network does not have are errors if someone writes them. In a running network, a name that the
policy in force has already is only a warning: its switch may have left. Before a network is known, every name is
accepted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from sluice.policy import tags
from sluice.policy.controls import Need
from sluice.policy.errors import FieldError, guess, shortened
from sluice.policy.schema.entries import entry
from sluice.policy.schema.field_kinds import (
    MAX_QUEUES,
    PORT_NAMES,
    Override,
    ParameterValues,
    name_host,
    name_port,
)
from sluice.policy.schema.fields import POLICY_FIELDS, PolicyFields, read_fields
from sluice.policy.schema.kinds import ListOf, Number, Whole
from sluice.policy.schemes import Marking, Scheme, scheme_named
from sluice.policy.schemes.ports import (
    MAX_BACKLOG_BYTES,
    REFERENCE_MARK_BYTES,
    MarkBy,
    PortMarking,
    has_attained,
)
from sluice.policy.schemes.queues import QueueMap
from sluice.policy.units import NS_PER_S

DSCPS = 64
LEFT_SHARE = 1 / 16
"""Of the link, for each queue that a policy does not use."""


@dataclass(frozen=True)
class PortBehaviour(PortMarking):
    """The settings of all ports. Only the marking of core ports may differ (`core_mark_bytes`)."""

    core_mark_bytes: int | None = entry(
        Whole(1, MAX_BACKLOG_BYTES, "bytes"),
        "mark_bytes of the ports between switches. Null: the same as at the edge.",
        default=None,
    )
    shares: tuple[float, ...] | None = entry(
        ListOf(Number(0, 1), shortest=1, longest=8),
        "Guaranteed part of the link for each queue. Null: strict priorities.",
        default=None,
    )
    sub_queues: int | None = entry(
        Whole(1, 32),
        "Flow queues in each priority (dataplane/laws/dqs.h). Null: a priority is one queue.",
        default=None,
    )
    release_ns: int | None = entry(
        Whole(0, 60 * NS_PER_S, "ns"),
        "How long an empty flow queue stays reserved for its flow.",
        default=None,
    )

    acts_at: tuple[str, ...] = entry(
        PORT_NAMES,
        'Ports at which this holds: "s1:2", "s1:*" or "*". Other ports neither mark nor drop.',
        default=("*",),
    )

    untagged_queue: int = entry(
        Whole(0, 7), "Queue of packets without a tag. Frames of the operator's VLANs use it, too.", default=0
    )

    @property
    def guaranteed(self) -> tuple[float, ...]:
        """Guaranteed part of the link for each of the eight queues.

        What still waits in the queues of the policy before would have to wait until all others are empty, and would
        take room in the buffer meanwhile. Nothing else enters these queues, so their shares take nothing from others.
        """
        used = (*(self.shares or ()), *[0.0] * MAX_QUEUES)[: self.last_queue + 1]
        return (*used, *[LEFT_SHARE] * (MAX_QUEUES - len(used)))

    def marking(self, *, edge: bool) -> PortMarking:
        """Marking of a port to a host (`edge`), or of a port to another switch."""
        own = {field.name: getattr(self, field.name) for field in fields(PortMarking)}
        if not edge and self.core_mark_bytes is not None:
            own["mark_bytes"] = self.core_mark_bytes
        return PortMarking(**own)


__all__ = ["Override", "Policy", "QueueMap", "host_queue_map", "queue_map"]


@dataclass(frozen=True)
class Policy(PolicyFields):
    """A policy, immutable. `from_document` makes one and fills in the scheme's defaults."""

    @property
    def definition(self) -> Scheme:
        """The scheme of that name."""
        return scheme_named(self.scheme)

    @property
    def port_marking(self) -> PortMarking:
        """Marking and buffer of the ports to hosts, and of all ports unless `mark_at_core` is set."""
        return self.port_behaviour.marking(edge=True)

    @property
    def port_behaviour(self) -> PortBehaviour:
        """All settings of the ports except their queue maps."""
        phantom = self.definition.marking is Marking.PHANTOM
        return PortBehaviour(
            mark_bytes=None if phantom else self.mark_at or self.mark_min,
            buffer_bytes=self.buffer,
            mark_max_bytes=self.mark_max,
            mark_chance=1.0 if self.mark_chance is None else self.mark_chance,
            phantom_mark_bytes=self.mark_at if phantom else None,
            urgent_first=self.urgent_first,
            mark_by=self.mark_by or MarkBy.PORT,
            last_queue=self.queues - 1,
            last_mark_factor=self.last_mark_factor or 1,
            core_mark_bytes=self.mark_at_core,
            shares=self.shares,
            sub_queues=self.sub_queues,
            release_ns=self.release,
            acts_at=self.acts_at,
            untagged_queue=self.untagged_queue,
        )

    def override_of(self, port_id: str) -> Override | None:
        """The override that decides for a port ("s1:2"): the last one that names it. None if no override does."""
        return next((override for override in reversed(self.overrides) if override.names(port_id)), None)

    def fixed_at(self, port_id: str) -> tuple[int, ...] | None:
        """The thresholds in bytes that an override fixes at a port; None if no override does."""
        override = self.override_of(port_id)
        return override.thresholds if override else None

    def is_frozen(self, port_id: str) -> bool:
        """Return whether an override makes the port keep the thresholds that are in force."""
        override = self.override_of(port_id)
        return override is not None and override.freeze

    def acts_at_port(self, port_id: str) -> bool:
        """Return whether the policy acts at a port ("s1:2"). At other ports, it only counts and computes."""
        return name_port(self.acts_at, port_id)

    @property
    def only_watches(self) -> bool:
        """The policy acts nowhere."""
        return not self.acts_at

    def acts_on_host(self, name: str) -> bool:
        """Return whether the policy acts on the host of this agent. Other hosts are only watched."""
        return not self.only_watches and name_host(self.acts_on, name)

    def has_levels_of(self, other: Policy) -> bool:
        """Return whether thresholds mean the same under both policies: the same number, for the same queues."""
        return (self.scheme, self.queues) == (other.scheme, other.queues)

    @property
    def needs(self) -> frozenset[Need]:
        """What a fabric must offer to carry out the policy (policy/fabrics.py)."""
        asked = {Need.FLOW_QUEUES: self.flow_queues, Need.RESERVED_DSCP: bool(self.reserved_dscp)}
        return self.definition.needs | {need for need, wanted in asked.items() if wanted}

    @classmethod
    def from_document(
        cls, document: Mapping[str, Any], network_mark_bytes: int = REFERENCE_MARK_BYTES
    ) -> Policy:
        """Check a document (JSON or a TOML table) and fill in the scheme's defaults.

        Sizes are bytes, or text with a unit ("10KB", "65pkt"). `network_mark_bytes` is the K to which the defaults are
        fitted (policy/schema/fitting.py). Raises FieldError that names the first bad field.
        """
        policy = cls(**read_fields(document, network_mark_bytes))
        _check_thresholds(policy)
        if policy.definition.has_levels:
            _check_levels(policy)
        return policy

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form, the inverse of `from_document`."""
        return {field.name: _plain(getattr(self, field.name)) for field in POLICY_FIELDS}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_document() if isinstance(value, Override | ParameterValues) else value


def _check_thresholds(policy: Policy) -> None:
    """Check thresholds against each other and against the buffer, and reserved tags. Raises FieldError."""
    if not has_attained(policy.reserved_dscp):
        raise FieldError("reserved_dscp", "leaves no tag for the bytes sent: leave one of 1 to 40 out")
    buffer, at, low, high = policy.buffer, policy.mark_at, policy.mark_min, policy.mark_max
    least, most = policy.least_threshold, policy.most_threshold
    if policy.definition.marking is Marking.PHANTOM and at is not None and at >= buffer:
        raise FieldError(
            "mark_at",
            f"must be less than buffer, {buffer} bytes, because a phantom queue grows no further, not {at}",
        )
    if low is not None and high is not None and low >= high:
        raise FieldError("mark_max", f"must be greater than mark_min, {low} bytes, not {high}")
    if low is not None and high is not None and high >= buffer:
        raise FieldError(
            "mark_max",
            f"must be less than buffer, {buffer} bytes, not {high}: lower mark_max or raise buffer",
        )
    if least is not None and most is not None and most < least:
        raise FieldError(
            "most_threshold",
            f"must be at least least_threshold, {least} bytes, not {most}: raise it or lower least_threshold",
        )


def _check_levels(policy: Policy) -> None:
    """Check that hosts can tag and limit the levels. Raises FieldError."""
    if not policy.host_queues:
        raise FieldError("host_queues", f"must be true with scheme {policy.scheme}: hosts limit each level")
    if policy.reserved_dscp and policy.reserved_dscp[0] <= policy.queues:
        raise FieldError("reserved_dscp", f"must be above {policy.queues}, the last level of {policy.scheme}")


_MOST_PORTS = 8
"""A warning lists at most this many ports of the network."""


def port_warnings(policy: Policy, ports: Collection[str]) -> list[str]:
    """Return a line for each name that names none of these ports ("s1:2"). None without ports, as before a network."""
    return [
        f"{where}: {problem}. The name takes effect if such a port joins the network"
        for where, _, problem in _unknown(policy, ports)
    ]


def check_ports(policy: Policy, ports: Collection[str], before: Policy | None = None) -> None:
    """Raise FieldError for a name that names none of these ports, unless the policy `before` has the name, too."""
    before_names = {name for _, name in _names(before)} if before else set()
    for where, name, problem in _unknown(policy, ports):
        if name not in before_names:
            raise FieldError(where, problem)


def _unknown(policy: Policy, ports: Collection[str]) -> Iterator[tuple[str, str, str]]:
    """Yield key, name and problem of each name that names none of these ports; nothing without ports."""
    for where, name in _names(policy):
        if problem := unknown_port(name, ports):
            yield where, name, problem


def unknown_port(name: str, ports: Collection[str]) -> str | None:
    """Return what is wrong if the name names none of these ports. None without ports."""
    if not ports or any(name_port([name], port) for port in ports):
        return None
    first = ", ".join(list(ports)[:_MOST_PORTS])
    more = f" and {len(ports) - _MOST_PORTS} more" if len(ports) > _MOST_PORTS else ""
    return f"the network has no port {shortened(name)}{guess(name, ports)}; its ports are {first}{more}"


def _names(policy: Policy) -> Iterator[tuple[str, str]]:
    """Yield each name of ports, with the key where it is."""
    for index, override in enumerate(policy.overrides):
        for name in override.ports:
            yield f"overrides[{index}].ports", name
    for name in policy.acts_at:
        yield "acts_at", name


def queue_map(policy: Policy, thresholds_bytes: Sequence[int]) -> QueueMap:
    """The queue of each tag at a port with these thresholds.

    Tags that no host of the scheme writes are background traffic. No limit holds for urgency, so it would be a way into
    the first queue (policy/policing/limits.py).
    """
    scheme, last = policy.definition, policy.queues - 1
    queue_of = scheme.queue_rule.map(
        thresholds_bytes, queues=policy.queues, untagged_queue=policy.untagged_queue
    )
    if not scheme.tags_deadlines:
        queue_of = _sent_to(queue_of, range(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1), last)
    if not scheme.tags_sizes:
        queue_of = _sent_to(queue_of, range(tags.KNOWN_SIZE_FIRST, tags.KNOWN_SIZE_LAST + 1), last)
    return _sent_to(queue_of, policy.reserved_dscp, policy.reserved_queue)


def dscp_queue_map(policy: Policy, thresholds_bytes: Sequence[int]) -> tuple[int, ...]:
    """The queue of each of the 64 DSCPs: `queue_map`, and that of untagged packets for DSCPs that are no tags."""
    queue_of = queue_map(policy, thresholds_bytes)
    return (*queue_of, *(policy.untagged_queue,) * (DSCPS - len(queue_of)))


def host_queue_map(policy: Policy) -> QueueMap:
    """The queue of each tag at a host's own link.

    Its thresholds are fixed, because no controller counts what leaves a host: those of the policy, unless it has others
    for hosts. Without `host_queues`, all tags share one queue.
    """
    if not policy.host_queues:
        return (0,) * tags.TAG_COUNT
    return queue_map(policy, policy.host_thresholds or policy.thresholds)


def _sent_to(queue_of: QueueMap, moved: Collection[int], queue: int) -> QueueMap:
    """Return the map with another queue for some tags."""
    return tuple(queue if tag in moved else before for tag, before in enumerate(queue_of))
