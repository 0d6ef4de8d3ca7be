# SPDX-License-Identifier: Apache-2.0
"""The desired policy: one validated document that says what every port and host shall do.

The REST API stores it, scenarios hold one in their [scheme] table, the controller reconciles the switches towards it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from itertools import pairwise
from typing import Any

from policy import units
from policy.behaviour import PortBehaviour
from policy.errors import FieldError
from policy.framing import MSS_BYTES
from policy.marking import DEFAULT_BUFFER_BYTES, PortMarking
from policy.schemes import Marking, Need, QueueRule, Scheme, ThresholdRule, scheme_named

MAX_QUEUES = 8
MAX_THRESHOLD_BYTES = 10**9
MAX_MARK_BYTES = 10**9

MAX_TAG_BURST_BYTES = 10**6

MAX_SUB_QUEUES = 32
"""Of a priority: SL_DQS_MAX_QUEUES in dataplane/laws/dqs.h."""
MAX_RELEASE_NS = 60 * 10**9
DEFAULT_RELEASE_NS = 10**6
"""Ours; FISH says "for long". Longer than a round trip: a flow keeps its queue from one window to the next."""


@dataclass(frozen=True)
class Override:
    """What is different at some ports. `thresholds` fixes them by hand; without, they stay as they are (`freeze`)."""

    ports: tuple[str, ...]
    """Names of ports ("s1:2"), all of a switch ("s1:*"), or all ("*")."""
    thresholds: tuple[int, ...] | None
    """Bytes; None where the port keeps what is in force."""
    freeze: bool

    def names(self, port_id: str) -> bool:
        """Whether it is about this port."""
        return any(name in (port_id, f"{port_id.rpartition(':')[0]}:*", "*") for name in self.ports)

    def to_document(self) -> dict[str, Any]:
        fixed = {"thresholds": list(self.thresholds)} if self.thresholds is not None else {"freeze": True}
        return {"ports": list(self.ports), **fixed}


@dataclass(frozen=True)
class Policy:
    """What is wanted. Immutable; `from_document` is the way in, and fills the scheme's defaults."""

    scheme: str
    queues: int
    """1 … 8; queue 0 is served first."""
    thresholds: tuple[int, ...]
    """Demotion thresholds in bytes, increasing, queue_rule.demotions(queues) of them: static, or where they start."""
    percentiles: tuple[float, ...]
    """Percentiles of completed flow sizes that become the thresholds, as many as those (scheme mlfq-adaptive)."""
    window_ms: int
    """Sliding window over which completed flows are remembered."""
    interval_ms: int
    """Time between two adjustments of the thresholds."""
    min_flows: int
    """Adjust only when at least this many flows completed in the window."""
    mark_at: int | None
    """K: mark ECN when a port's backlog (or its phantom queue) exceeds this many bytes; None where it does not."""
    mark_at_core: int | None
    """K of the links between switches, where it is not the same."""
    mark_min: int | None
    """Schemes that mark by chance: mark no packet up to this backlog in bytes; None elsewhere."""
    mark_max: int | None
    """… and every packet above this one, between them with linear probability."""
    buffer: int
    """Bytes that a port buffers over all its queues."""
    shares: tuple[float, ...] | None
    """The part of the link that each queue is sure of, at most 1 in all; the rest goes top down. None: all of it."""
    flow_queues: bool
    """Each flow has a queue of its own inside its priority (FISH; dataplane/laws/dqs.h)."""
    sub_queues: int | None
    """Flow queues in a priority, 1 … 32; None without them."""
    release: int | None
    """Nanoseconds for which an empty flow queue stays its flow's; None without them."""
    urgent_after: int | None
    """A deadline flow is tagged as any other flow until it has sent this many bytes; None without urgency tags."""
    untagged_queue: int
    """Queue of packets without a tag."""
    idle_gap_ms: int
    """A flow is one direction of a 5-tuple between idle gaps of this length."""
    tag_burst: int | None
    """The most bytes of payload that leave a host under one tag: a segment, or 64 KB with segmentation offload. Hosts
    whose tags cannot be true then are demoted (policy/honesty.py). 0: none is; None where tags decide nothing."""
    overrides: tuple[Override, ...] = ()
    """What is different at some ports; the last one that names a port decides about it."""

    @property
    def definition(self) -> Scheme:
        return scheme_named(self.scheme)

    @property
    def port_marking(self) -> PortMarking:
        """What the ports do."""
        phantom = self.definition.marking is Marking.PHANTOM
        return PortMarking(
            mark_bytes=None if phantom else self.mark_at or self.mark_min,
            buffer_bytes=self.buffer,
            mark_max_bytes=self.mark_max,
            phantom_mark_bytes=self.mark_at if phantom else None,
        )

    @property
    def core_marking(self) -> PortMarking:
        """What the ports between switches do."""
        if self.mark_at_core is None:
            return self.port_marking
        return replace(self.port_marking, mark_bytes=self.mark_at_core)

    @property
    def port_behaviour(self) -> PortBehaviour:
        """Everything that ports do but their maps."""
        return PortBehaviour(
            **asdict(self.port_marking),
            core_mark_bytes=self.mark_at_core,
            shares=self.shares,
            sub_queues=self.sub_queues,
            release_ns=self.release,
        )

    def override_of(self, port_id: str) -> Override | None:
        """What is different at a port ("s1:2"), if anything is."""
        return next((override for override in reversed(self.overrides) if override.names(port_id)), None)

    def fixed_at(self, port_id: str) -> tuple[int, ...] | None:
        """The thresholds in bytes that are fixed by hand at a port."""
        override = self.override_of(port_id)
        return override.thresholds if override else None

    def freezes(self, port_id: str) -> bool:
        """Whether the port keeps the thresholds that are in force."""
        override = self.override_of(port_id)
        return override is not None and override.freeze

    def levels_as(self, other: Policy) -> bool:
        """Whether thresholds mean the same under both: as many, for the same queues."""
        return (self.scheme, self.queues) == (other.scheme, other.queues)

    @property
    def needs(self) -> frozenset[Need]:
        """What a fabric must be able to do to carry this out (policy/fabrics.py says which can)."""
        asked = {
            Need.FLOW_QUEUES: self.flow_queues,
            Need.SHARES: self.shares is not None,
            Need.CORE_MARKING: self.mark_at_core is not None,
        }
        return self.definition.needs | {need for need, wanted in asked.items() if wanted}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Policy:
        """Check a document (JSON or a TOML table) and fill in the scheme's defaults.

        Sizes are bytes or text with a unit ("10KB", "65pkt"). Raises FieldError naming the first bad field.
        """
        if not isinstance(document, Mapping):
            raise FieldError("policy", "must be an object with at least a scheme")
        known = [f.name for f in fields(cls)]
        for key in document:
            if key not in known:
                raise FieldError(str(key), f"is not a policy field; there are {', '.join(known)}")
        scheme = scheme_named(document.get("scheme"))
        queues = _queues(document, scheme)
        buffer = _size(document, "buffer", DEFAULT_BUFFER_BYTES, 3_000, 1_000_000_000)
        return cls(
            scheme=scheme.name,
            queues=queues,
            thresholds=_thresholds(document, scheme, queues),
            percentiles=_percentiles(document, scheme, queues),
            window_ms=_integer(document, "window_ms", 500, 10, 3_600_000),
            interval_ms=_integer(document, "interval_ms", 100, 10, 600_000),
            min_flows=_integer(document, "min_flows", scheme.min_flows, 1, 1_000_000),
            mark_at=_mark_at(document, scheme, buffer),
            mark_at_core=_mark_at_core(document, scheme),
            **_ramp(document, scheme, buffer),
            buffer=buffer,
            shares=_shares(document, scheme, queues),
            **_flow_queues(document, scheme),
            urgent_after=_urgent_after(document, scheme),
            untagged_queue=_integer(document, "untagged_queue", queues - 1, 0, queues - 1),
            idle_gap_ms=_integer(document, "idle_gap_ms", 10, 1, 60_000),
            tag_burst=_tag_burst(document, scheme),
            overrides=_overrides(document, scheme, queues),
        )

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form, the inverse of `from_document`."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


def _plain(value: object) -> object:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.to_document() if isinstance(value, Override) else value


def _integer(document: Mapping[str, Any], field: str, default: int, low: int, high: int) -> int:
    value = document.get(field, default)
    if value is None:
        value = default
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise FieldError(field, f"must be a whole number from {low} to {high}, not {value!r}")
    return value


def _queues(document: Mapping[str, Any], scheme: Scheme) -> int:
    queues = _integer(document, "queues", scheme.queues, 1, MAX_QUEUES)
    if scheme.threshold_rule is ThresholdRule.NONE and queues != scheme.queues:
        raise FieldError("queues", f"scheme {scheme.name} has {scheme.queues}")
    if not scheme.queue_rule.allows(queues):
        allowed = [str(n) for n in range(1, MAX_QUEUES + 1) if scheme.queue_rule.allows(n)]
        raise FieldError("queues", f"scheme {scheme.name} can have {', '.join(allowed)}, not {queues}")
    return queues


def demotions_of(document: Mapping[str, Any]) -> int:
    """How many thresholds the policy of this document has. Raises FieldError."""
    scheme = scheme_named(document.get("scheme"))
    return scheme.queue_rule.demotions(_queues(document, scheme))


def _bytes(field: str, value: object, low: int, high: int) -> int:
    count = (
        value if isinstance(value, int) and not isinstance(value, bool) else units.size_bytes(field, value)
    )
    if not low <= count <= high:
        raise FieldError(field, f"must be from {low} to {high} bytes, not {count}")
    return count


def _size(document: Mapping[str, Any], field: str, default: int, low: int, high: int) -> int:
    value = document.get(field)
    return default if value is None else _bytes(field, value, low, high)


def _mark_at(document: Mapping[str, Any], scheme: Scheme, buffer: int) -> int | None:
    if scheme.marking not in (Marking.PORT, Marking.PHANTOM):
        _leave_out(document, "mark_at", scheme)
        return None
    mark_at = _size(document, "mark_at", scheme.marks_bytes[0], 1, MAX_MARK_BYTES)
    if scheme.marking is Marking.PHANTOM and mark_at >= buffer:
        raise FieldError(
            "mark_at", f"a phantom queue grows to the buffer, {buffer} bytes: {mark_at} is too much"
        )
    return mark_at


def _ramp(document: Mapping[str, Any], scheme: Scheme, buffer: int) -> dict[str, Any]:
    if scheme.marking is not Marking.RED:
        for field in ("mark_min", "mark_max"):
            _leave_out(document, field, scheme)
        return {"mark_min": None, "mark_max": None}
    low, high = scheme.marks_bytes
    mark_min = _size(document, "mark_min", low, 1, MAX_MARK_BYTES)
    mark_max = _size(document, "mark_max", high, 1, MAX_MARK_BYTES)
    if mark_min >= mark_max:
        raise FieldError("mark_max", f"must be above mark_min, {mark_min} bytes, not {mark_max}")
    if mark_max >= buffer:
        raise FieldError("mark_max", f"{mark_max} bytes are never reached in a buffer of {buffer}: lower it")
    return {"mark_min": mark_min, "mark_max": mark_max}


_TAKES = {
    Marking.NONE: "does not mark",
    Marking.PORT: "marks at mark_at",
    Marking.RED: "marks from mark_min to mark_max",
    Marking.PHANTOM: "marks at mark_at of its phantom queue",
}


def _leave_out(document: Mapping[str, Any], field: str, scheme: Scheme) -> None:
    if document.get(field) is not None:
        raise FieldError(field, f"scheme {scheme.name} {_TAKES[scheme.marking]}; leave {field} out")


def _mark_at_core(document: Mapping[str, Any], scheme: Scheme) -> int | None:
    if document.get("mark_at_core") is None:
        return None
    if scheme.marking is not Marking.PORT:
        _leave_out(document, "mark_at_core", scheme)
    return _size(document, "mark_at_core", 0, 1, MAX_MARK_BYTES)


def _shares(document: Mapping[str, Any], scheme: Scheme, queues: int) -> tuple[float, ...] | None:
    """Null and the empty list mean strict priorities; without the field the scheme decides."""
    if "shares" not in document:
        below = queues - 1
        strict = not (below and scheme.least_share)
        return None if strict else (1 - below * scheme.least_share, *[scheme.least_share] * below)
    values = document["shares"]
    if values is None or values == [] or values == ():
        return None
    if scheme.queue_rule is QueueRule.SHORTEST_FIRST:
        raise FieldError("shares", f"scheme {scheme.name} has no priorities to share the link among")
    if not isinstance(values, list | tuple) or len(values) != queues:
        raise FieldError("shares", f"must be a list of {queues} values, one a queue; an empty one: strict")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
            raise FieldError("shares", f"must lie from 0 to 1, not {value!r}")
    if sum(values) > 1 + 1e-9:
        raise FieldError("shares", f"must be at most 1 in all, not {sum(values):g}")
    return tuple(float(value) for value in values)


def _flow_queues(document: Mapping[str, Any], scheme: Scheme) -> dict[str, Any]:
    wanted = document.get("flow_queues")
    if wanted is None:
        wanted = scheme.flow_queues
    if not isinstance(wanted, bool):
        raise FieldError("flow_queues", f"must be true or false, not {wanted!r}")
    if wanted and scheme.queue_rule is QueueRule.SHORTEST_FIRST:
        raise FieldError("flow_queues", f"scheme {scheme.name} has one queue for all flows")
    if not wanted:
        for field in ("sub_queues", "release"):
            if document.get(field) is not None:
                raise FieldError(field, f"belongs to flow_queues; set that, or leave {field} out")
        return {"flow_queues": False, "sub_queues": None, "release": None}
    return {
        "flow_queues": True,
        "sub_queues": _integer(document, "sub_queues", MAX_SUB_QUEUES, 1, MAX_SUB_QUEUES),
        "release": _release(document),
    }


def _urgent_after(document: Mapping[str, Any], scheme: Scheme) -> int | None:
    if scheme.tags_deadlines:
        return _size(document, "urgent_after", scheme.urgent_after_bytes, 0, MAX_THRESHOLD_BYTES)
    if document.get("urgent_after") is not None:
        raise FieldError("urgent_after", f"scheme {scheme.name} tags no urgency; leave urgent_after out")
    return None


def _tag_burst(document: Mapping[str, Any], scheme: Scheme) -> int | None:
    if scheme.queue_rule not in (QueueRule.SINGLE, QueueRule.SHORTEST_FIRST):
        return _size(document, "tag_burst", MSS_BYTES, 0, MAX_TAG_BURST_BYTES)
    if document.get("tag_burst") is not None:
        raise FieldError("tag_burst", f"in scheme {scheme.name} tags decide nothing; leave tag_burst out")
    return None


def _release(document: Mapping[str, Any]) -> int:
    value = document.get("release")
    if value is None:
        return DEFAULT_RELEASE_NS
    whole = isinstance(value, int) and not isinstance(value, bool)
    release_ns = value if whole else units.time_ns("release", value)
    if not 0 <= release_ns <= MAX_RELEASE_NS:
        raise FieldError("release", f"must be from 0 to {MAX_RELEASE_NS} ns, not {release_ns}")
    return int(release_ns)


def _list(document: Mapping[str, Any], field: str, scheme: Scheme, queues: int) -> Sequence[Any] | None:
    values = document.get(field)
    if values is None:
        return None
    count = scheme.queue_rule.demotions(queues)
    if not isinstance(values, list | tuple) or len(values) != count:
        raise FieldError(
            field, f"must be a list of {count} values for scheme {scheme.name}, queues = {queues}"
        )
    return values


def _increasing(field: str, values: Sequence[float]) -> None:
    for lower, upper in pairwise(values):
        if upper <= lower:
            raise FieldError(field, f"must increase, but {upper} follows {lower}")


def _given_thresholds(document: Mapping[str, Any], scheme: Scheme, queues: int) -> tuple[int, ...] | None:
    values = _list(document, "thresholds", scheme, queues)
    if values is None:
        return None
    thresholds = tuple(_bytes("thresholds", value, 1, MAX_THRESHOLD_BYTES) for value in values)
    _increasing("thresholds", thresholds)
    return thresholds


def _thresholds(document: Mapping[str, Any], scheme: Scheme, queues: int) -> tuple[int, ...]:
    given = _given_thresholds(document, scheme, queues)
    if given is not None:
        return given
    count = scheme.queue_rule.demotions(queues)
    if count in (0, len(scheme.thresholds_bytes)):
        return scheme.thresholds_bytes[:count]
    if scheme.threshold_rule is ThresholdRule.STATIC:
        raise FieldError("thresholds", f"scheme {scheme.name} with {queues} queues needs {count} of them")
    return tuple(10_000 * 4**i for i in range(count))


def _percentiles(document: Mapping[str, Any], scheme: Scheme, queues: int) -> tuple[float, ...]:
    if scheme.threshold_rule is not ThresholdRule.PERCENTILE:
        if document.get("percentiles") not in (None, [], ()):
            raise FieldError("percentiles", f"scheme {scheme.name} does not use them; leave them out")
        return ()
    values = _list(document, "percentiles", scheme, queues)
    if values is None:
        return tuple(10.0 * (i + 1) for i in range(scheme.queue_rule.demotions(queues)))
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 100:
            raise FieldError("percentiles", f"must lie above 0 and up to 100, not {value!r}")
    _increasing("percentiles", values)
    return tuple(float(value) for value in values)


# ── Overrides ──────────────────────────────────────────────────────────────────────────────────────────────────────

MAX_OVERRIDES = 1000
PORTS_PATTERN = r"^(\*|[A-Za-z0-9._-]{1,64}:(\*|[0-9]{1,9}))$"
_PORTS = re.compile(PORTS_PATTERN)


def _overrides(document: Mapping[str, Any], scheme: Scheme, queues: int) -> tuple[Override, ...]:
    values = document.get("overrides")
    if values is None:
        return ()
    if not isinstance(values, list | tuple) or len(values) > MAX_OVERRIDES:
        raise FieldError("overrides", f"must be a list of at most {MAX_OVERRIDES} tables")
    return tuple(_override(f"overrides[{i}]", value, scheme, queues) for i, value in enumerate(values))


def _override(where: str, value: object, scheme: Scheme, queues: int) -> Override:
    if not isinstance(value, Mapping):
        raise FieldError(where, "must be a table with ports, and with thresholds or freeze = true")
    for key in value:
        if key not in ("ports", "thresholds", "freeze"):
            raise FieldError(
                f"{where}.{key}", "is not part of an override; there are ports, thresholds, freeze"
            )
    freeze = value.get("freeze", False)
    if freeze is not None and not isinstance(freeze, bool):
        raise FieldError(f"{where}.freeze", f"must be true or false, not {freeze!r}")
    if bool(freeze) == (value.get("thresholds") is not None):
        raise FieldError(where, "needs either thresholds or freeze = true, and not both")
    try:
        ports = _ports(value.get("ports"))
        _may_override(scheme, freeze=bool(freeze))
        return Override(ports, _given_thresholds(value, scheme, queues), bool(freeze))
    except FieldError as error:
        raise FieldError(f"{where}.{error.field}", error.problem) from None


def _may_override(scheme: Scheme, *, freeze: bool) -> None:
    if scheme.threshold_rule is ThresholdRule.NONE:
        raise FieldError("freeze" if freeze else "thresholds", f"scheme {scheme.name} has no thresholds")
    if freeze and not scheme.threshold_rule.adapts:
        raise FieldError("freeze", f"scheme {scheme.name} does not adapt: there is nothing to freeze")


def _ports(value: object) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise FieldError("ports", 'must be a list of names, such as ["s1:2", "s2:*"]')
    for name in value:
        if not isinstance(name, str) or not _PORTS.fullmatch(name):
            raise FieldError("ports", f'must be names such as "s1:2", "s2:*" or "*", not {name!r}')
    return tuple(value)
