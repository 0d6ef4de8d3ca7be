# SPDX-License-Identifier: Apache-2.0
"""A policy that is fair in its network: what a document leaves out comes from the network, its traffic, or the scheme.

Scenario, `PUT /policy` and its preview use this one function, `fitted`. The rules, field by field:

- A field that the document names keeps its value. Null means the scheme's default.
- A field that belongs to the network (PolicyEntry.of_network) keeps the value in force.
- Marks and buffer are in proportion to the network's K. It is the K in force, or the newest one before it; otherwise
  it follows from the links:

      K = rate * max(round trip, 78 us), at least 12 packets

  78 us at 10 Gb/s are the 65 packets of the papers. Round trips up to 100 us count as 78 us, because the papers use
  those 65 packets for all of them. 12 packets leave room for a first window (RFC 6928: ten packets).
- Fixed thresholds, and those from which a scheme with the least mean slowdown starts, follow from the measured
  traffic. Without it they are the scheme's own, and the answer says so.
- The network epoch of a scheme with levels follows from hosts and links (policy/schemes/epochs.py).
- Everything else is the scheme's default.

Changes of a few keys of a policy: the rest stays, and what followed from a default follows the new values.

A stored policy names every field. `chosen` finds the fields that someone has set, because the others equal the default
that the scheme and the fields above give. So a buffer of "20 times mark_at" is that after a change of mark_at, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sluice.policy.errors import FieldError
from sluice.policy.figures.metrics import IdealTimes
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.field_kinds import Draft, Override, PolicyEntry
from sluice.policy.schema.fields import POLICY_FIELDS, scheme_of
from sluice.policy.schema.kinds import ListOf
from sluice.policy.schemes import Marking, Scheme, ThresholdRule, epochs
from sluice.policy.schemes.ports import MAX_BACKLOG_BYTES, REFERENCE_MARK_BYTES
from sluice.policy.thresholds.static import Traffic, solved
from sluice.policy.units import BITS_PER_BYTE, MSS_BYTES, PACKET_BYTES, US_PER_S, format_bytes, format_rate

REFERENCE_RATE_BPS = 10**10
REFERENCE_ROUND_TRIP_US = REFERENCE_MARK_BYTES * BITS_PER_BYTE * US_PER_S / REFERENCE_RATE_BPS
LONGEST_REFERENCE_US = 100.0
"""Round trips for which the papers use REFERENCE_MARK_BYTES at 10 Gb/s: up to 85 us in the networks of Aemon."""
LEAST_MARK_BYTES = 12 * PACKET_BYTES
FITTED_RULES = (ThresholdRule.STATIC, ThresholdRule.ONLINE)
"""Thresholds that are computed from the traffic. A scheme of percentiles begins where its document says."""


@dataclass(frozen=True)
class NetworkPath:
    """What a network's links are for a flow."""

    rate_bps: int
    """Rate of the slowest link to a host."""
    round_trip_us: float
    """The longest round trip of a full packet and its ACK through an idle network."""
    epoch_ns: int | None = None
    """The network epoch."""

    @property
    def mark_bytes(self) -> int:
        """K for these links."""
        short = self.round_trip_us <= LONGEST_REFERENCE_US
        round_trip_us = REFERENCE_ROUND_TRIP_US if short else self.round_trip_us
        product = round(self.rate_bps * round_trip_us / US_PER_S / BITS_PER_BYTE)
        return min(max(product, LEAST_MARK_BYTES), MAX_BACKLOG_BYTES)

    def __str__(self) -> str:
        return f"{format_rate(self.rate_bps)} and a round trip of {self.round_trip_us / 1000:.3g} ms"


def path_of(topology: Topology) -> NetworkPath | None:
    """Return the path of a network, or None if no rate of a link to a host is known."""
    edges = [port for port in topology.ports if port.edge and port.managed and port.rate_bps]
    if not edges:
        return None
    rate_bps = min(port.rate_bps for port in edges)
    round_trip_us, idle_us = _trips_us(topology)
    switches = max(hops for port in edges for hops in topology.distances_to_switch(port.switch).values())
    epoch_ns = epochs.network_epoch_ns(len(topology.hosts), rate_bps, idle_us, switches)
    return NetworkPath(rate_bps, round_trip_us, epoch_ns)


def _trips_us(topology: Topology) -> tuple[float, float]:
    """Return the longest round trip between hosts of different edge switches, or of the only one; 0 if none is known.

    The second value is the longest way of the packet alone.

    All hosts of a switch have equal links, so two of each are enough.
    """
    of_switch: dict[str, list[int]] = {}
    for index, host in enumerate(topology.hosts):
        of_switch.setdefault(topology.edge_port(host.name).switch, []).append(index)
    hosts = [index for of_one_switch in of_switch.values() for index in of_one_switch[:2]]
    src, dst = (np.repeat(hosts, len(hosts)), np.tile(hosts, len(hosts)))
    src, dst = src[src != dst], dst[src != dst]
    if not len(src):
        return 0.0, 0.0
    ideal = IdealTimes(topology)
    packet_us = ideal.of(src, dst, np.full(len(src), MSS_BYTES))
    both_us = packet_us + ideal.of(dst, src, np.ones(len(src), np.int64))
    known = np.isfinite(both_us)
    return float(both_us[known].max(initial=0)), float(packet_us[known].max(initial=0))


@dataclass(frozen=True)
class Surroundings:
    """What a document's gaps are filled from."""

    path: NetworkPath | None = None
    """None: the links are unknown, and the papers' values hold."""
    before: Sequence[Policy] = ()
    """The policies so far, newest first."""
    traffic: Traffic | None = None
    """Traffic for thresholds; None if it is unknown."""
    lacking: str = "a workload with a distribution of sizes and a load"
    """What is missing where the traffic is unknown."""
    fits_thresholds: bool = False
    """Thresholds that the document leaves out follow from the traffic. False: they are the scheme's."""


@dataclass(frozen=True)
class Fitted:
    """A whole policy, and where each value comes from."""

    policy: Policy
    reasons: Mapping[str, str]
    """Field → reason, in words. Fields with the scheme's default are not in it."""


def fitted(document: Mapping[str, Any], around: Surroundings) -> Fitted:
    """Return the policy of a document in its network. Raises FieldError that names the first bad field."""
    scheme = scheme_of(document)
    mark_bytes, reason = _network_mark(around)
    kept = _kept(document, scheme, around.before, mark_bytes)
    reasons = dict.fromkeys(kept, "kept: it belongs to the network")
    whole, because = _with_thresholds({**kept, **document}, document, scheme, around, mark_bytes)
    if scheme.has_levels and whole.get("epoch") is None and around.path is not None:
        whole["epoch"] = around.path.epoch_ns
        because = {**because, "epoch": f"computed for the hosts, and {around.path}"}
    policy = Policy.from_document(whole, mark_bytes)
    # The fields whose defaults are in proportion to the network's K.
    marks = {Marking.NONE: (), Marking.RED: ("mark_min", "mark_max")}.get(scheme.marking, ("mark_at",))
    reasons |= {name: reason for name in (*marks, "buffer") if name not in reasons}
    named = [name for name, value in document.items() if value is not None]
    return Fitted(policy, reasons | dict.fromkeys(named, "named in the document") | because)


def _network_mark(around: Surroundings) -> tuple[int, str]:
    """Return the network's K, and the reason for what is in proportion to it."""
    for policy in around.before:
        if policy.definition.marking is Marking.PORT and policy.mark_at is not None:
            return policy.mark_at, f"fitted to the network's K, {format_bytes(policy.mark_at)}"
    if around.path is not None:
        return around.path.mark_bytes, f"fitted to {around.path}"
    return REFERENCE_MARK_BYTES, "the scheme's, for 10 Gb/s"


def _kept(
    document: Mapping[str, Any], scheme: Scheme, before: Sequence[Policy], mark_bytes: int
) -> dict[str, Any]:
    """Return the values in force that belong to the network, where the scheme has the field and allows the value."""
    if not before:
        return {}
    in_force, kept = before[0].to_document(), {}
    queues = document.get("queues") or scheme.queues
    draft = Draft(scheme, {"queues": queues}, mark_bytes) if isinstance(queues, int) else Draft(scheme)
    for field in POLICY_FIELDS:
        if field.of_network and field.name not in document and _allows(field, in_force, draft):
            kept[field.name] = in_force[field.name]
    return kept


def _allows(field: PolicyEntry, in_force: Mapping[str, Any], draft: Draft) -> bool:
    has_field = field.applies.test(draft) or field.applies.refusal is None
    if in_force[field.name] is None or not has_field:
        return False
    try:
        field.read(in_force, draft)
    except FieldError:
        return False
    return True


def _with_thresholds(
    whole: dict[str, Any],
    document: Mapping[str, Any],
    scheme: Scheme,
    around: Surroundings,
    mark_bytes: int,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the document with thresholds for the traffic, and the reason for them if they are not the document's."""
    omitted = document.get("thresholds") is None
    if around.fits_thresholds and omitted and scheme.threshold_rule in FITTED_RULES:
        if around.traffic is None:
            return whole, {"thresholds": f"the scheme's own, because fitting needs {around.lacking}"}
        whole = {**whole, "thresholds": "optimal"}
    if not isinstance(whole.get("thresholds"), str):
        return whole, {}
    with_thresholds = solved(whole, around.traffic, mark_bytes, around.lacking)
    assert around.traffic is not None
    return with_thresholds, {"thresholds": f"computed for {around.traffic.name}"}


@dataclass(frozen=True)
class Difference:
    """A field that a change of the policy changes."""

    field: str
    title: str
    before: Any
    """As in a document; None also where there was no policy."""
    after: Any
    because: str


def differences(before: Policy | None, change: Fitted) -> tuple[Difference, ...]:
    """Return the fields whose values differ, in the order of the table of fields."""
    old = before.to_document() if before else {}
    new = change.policy.to_document()
    return tuple(
        Difference(
            field.name,
            field.title,
            old.get(field.name),
            new[field.name],
            change.reasons.get(field.name, "the scheme's default"),
        )
        for field in POLICY_FIELDS
        if before is None or old[field.name] != new[field.name]
    )


DEFAULT = "default"
"""As the value of a key: the scheme's default again."""


def chosen(policy: Policy) -> dict[str, Any]:
    """Return the values that differ from their defaults. `Policy.from_document` makes the same policy of them."""
    document = policy.to_document()
    values: dict[str, Any] = {}
    differing: dict[str, Any] = {"scheme": policy.scheme}
    for field in POLICY_FIELDS:
        value = getattr(policy, field.name)
        if field.name != "scheme" and value != _default(field, Draft(policy.definition, values)):
            differing[field.name] = document[field.name]
        values[field.name] = value
    return differing


def _default(field: PolicyEntry, draft: Draft) -> object:
    """Return the default; a value that equals no other if the field must be given."""
    try:
        return field.read({}, draft)
    except FieldError:
        return object()


def changed(policy: Policy, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with new values for some keys; the value DEFAULT gives a key its default again.

    With another scheme, the document names only the settings, because `fitted` decides what the network keeps. Raises
    FieldError that names the key.
    """
    scheme = scheme_of({"scheme": policy.scheme, **settings})
    if scheme is not policy.definition:
        return {key: value for key, value in settings.items() if value != DEFAULT}
    document = {**chosen(policy), **settings}
    kept = {key: value for key, value in document.items() if value != DEFAULT}
    return Policy.from_document(kept).to_document()


def is_list(key: str, policy: Policy) -> bool:
    """Return whether the value of a key is a list. An unknown key is none."""
    draft = Draft(policy.definition, {field.name: getattr(policy, field.name) for field in POLICY_FIELDS})
    return any(field.name == key and isinstance(field.kind_of(draft), ListOf) for field in POLICY_FIELDS)


# ── Overrides of ports ─────────────────────────────────────────────────────────────────────────────────────────────


def overridden(policy: Policy, port: str, rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that give one port this rule, thresholds or freeze. It replaces the port's own rule."""
    others = _documents(_without_port(policy.overrides, port))
    return {"overrides": [*others, {"ports": [port], **rule}]}


def not_overridden(policy: Policy, port: str) -> dict[str, Any]:
    """Return the settings without the port's own rule. Raises FieldError if no override names the port itself."""
    if not any(port in override.ports for override in policy.overrides):
        wide = policy.override_of(port)
        hint = f"; {', '.join(wide.ports)} includes it, so change that override" if wide else ""
        raise FieldError("overrides", f"no override names {port} itself{hint}")
    return {"overrides": _documents(_without_port(policy.overrides, port))}


def _without_port(
    overrides: Iterable[Override], port: str, *, only_frozen: bool = False
) -> Iterator[Override]:
    """Yield the overrides without this name, except those that name nothing else. `only_frozen`: others keep it."""
    for override in overrides:
        keeps = only_frozen and not override.freeze
        names = tuple(name for name in override.ports if keeps or name != port)
        if names:
            yield replace(override, ports=names)


def frozen(policy: Policy, ports: Iterable[str]) -> dict[str, Any]:
    """Return the settings that freeze the thresholds in force at these ports. An override of its own does it."""
    new = {"ports": list(ports), "freeze": True}
    return {"overrides": [*_documents(policy.overrides), new]}


def unfrozen(policy: Policy, ports: Iterable[str]) -> dict[str, Any]:
    """Return the settings that end the freezing of these ports. Raises FieldError for a port that is not frozen."""
    overrides = policy.overrides
    for port in ports:
        frozen = [name for override in overrides if override.freeze for name in override.ports]
        if port not in frozen:
            names = ", ".join(dict.fromkeys(frozen)) or "no ports"
            raise FieldError(port, f"no override freezes {port} by this name; frozen are {names}")
        overrides = tuple(_without_port(overrides, port, only_frozen=True))
    return {"overrides": _documents(overrides)}


def _documents(overrides: Iterable[Override]) -> list[dict[str, Any]]:
    return [override.to_document() for override in overrides]
