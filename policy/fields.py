# SPDX-License-Identifier: Apache-2.0
"""The one table of a policy's fields. Parser, validator, JSON schema, API models, form and reference come from it.

A field is one entry here and its use elsewhere. An entry has a kind (with bounds and unit), a default and a help text.
Both kind and default may depend on the scheme, and on fields that stand above it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from policy.entries import Entry
from policy.errors import FieldError, unknown_key
from policy.framing import MSS_BYTES
from policy.kinds import Choice, Duration, Flag, Kind, ListOf, Number, OneOfWhole, Schema, Size, Text, Whole
from policy.marking import DEFAULT_BUFFER_BYTES
from policy.needs import Need
from policy.schemes import SCHEMES, Marking, Scheme, ThresholdRule, scheme_named
from policy.tags import DEFAULT_IDLE_GAP_NS
from policy.units import NS_PER_MS, NS_PER_S

MAX_QUEUES = 8
MAX_THRESHOLD_BYTES = 10**9
_MAX_MARK_BYTES = 10**9
_MAX_SUB_QUEUES = 32
"""Of a priority: SL_DQS_MAX_QUEUES in dataplane/laws/dqs.h."""
_MAX_OVERRIDES = 1000


@dataclass(frozen=True)
class Draft:
    """A document that is being read: the scheme, and the fields that stand above the one in question."""

    scheme: Scheme
    read: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Empty where the answer must hold for any document of the scheme, as in its JSON schema."""

    @property
    def queues(self) -> int:
        """The number of queues, or the largest that the scheme can have."""
        most = self.scheme.queues if self.scheme.threshold_rule is ThresholdRule.NONE else MAX_QUEUES
        return int(self.read.get("queues", most))

    @property
    def has_queues(self) -> bool:
        return "queues" in self.read


Of: TypeAlias = Callable[[Draft], Any]


@dataclass(frozen=True)
class Applies:
    """Which schemes have a field. In the others it must be left out, or has no effect."""

    to: str
    """In words, for the reference."""
    test: Callable[[Draft], bool]
    refusal: Callable[[Draft], str] | None
    """Why a document must leave the field out; None: it may hold the field, without effect."""


def _marks(draft: Draft) -> str:
    ways = {
        Marking.NONE: "does not mark",
        Marking.PORT: "marks at mark_at",
        Marking.RED: "marks from mark_min to mark_max",
        Marking.PHANTOM: "marks at mark_at of its phantom queue",
    }
    return f"scheme {draft.scheme.name} {ways[draft.scheme.marking]}"


def _scheme_has(what: str) -> Callable[[Draft], str]:
    return lambda draft: f"scheme {draft.scheme.name} has {what}"


_EVERYWHERE = Applies("every scheme", lambda draft: True, None)
_THRESHOLDS = Applies(
    "schemes with thresholds",
    lambda draft: draft.scheme.threshold_rule is not ThresholdRule.NONE,
    _scheme_has("no thresholds"),
)
_PERCENTILES = Applies(
    "schemes whose thresholds are percentiles",
    lambda draft: draft.scheme.threshold_rule is ThresholdRule.PERCENTILE,
    _scheme_has("no percentiles"),
)
_ADAPTIVE = Applies("schemes that adapt", lambda draft: draft.scheme.threshold_rule.adapts, None)
_MARKS_AT = Applies(
    "schemes that mark at one threshold",
    lambda draft: draft.scheme.marking in (Marking.PORT, Marking.PHANTOM),
    _marks,
)
_MARKS_PORT = Applies(
    "schemes that mark by the port's backlog", lambda draft: draft.scheme.marking is Marking.PORT, _marks
)
_MARKS_RAMP = Applies(
    "schemes that mark by chance", lambda draft: draft.scheme.marking is Marking.RED, _marks
)
_PRIORITIES = Applies(
    "schemes with priorities",
    lambda draft: Need.SHORTEST_FIRST not in draft.scheme.needs,
    _scheme_has("one queue for all flows, without priorities"),
)
_FLOW_QUEUES = Applies(
    "policies with flow_queues",
    lambda draft: _PRIORITIES.test(draft) and draft.read.get("flow_queues", True),
    lambda draft: "belongs to flow_queues; set flow_queues",
)
_TAGS_URGENCY = Applies(
    "schemes that tag urgency",
    lambda draft: draft.scheme.tags_deadlines,
    lambda draft: f"scheme {draft.scheme.name} tags no urgency",
)
_READS_TAGS = Applies(
    "schemes whose tags decide about queues",
    lambda draft: draft.scheme.queue_rule.reads_tags,
    lambda draft: f"in scheme {draft.scheme.name} tags do not decide about queues",
)


# ── Kinds and defaults that depend on the scheme ───────────────────────────────────────────────────────────────────


def _queue_counts(draft: Draft) -> Kind:
    scheme = draft.scheme
    if scheme.threshold_rule is ThresholdRule.NONE:
        return OneOfWhole((scheme.queues,))
    counts = tuple(count for count in range(1, MAX_QUEUES + 1) if scheme.queue_rule.allows(count))
    return Whole(1, MAX_QUEUES) if len(counts) == MAX_QUEUES else OneOfWhole(counts)


def _levels(item: Kind) -> Callable[[Draft], ListOf]:
    """A list with one value for each demotion threshold."""

    def kind(draft: Draft) -> ListOf:
        count = draft.scheme.queue_rule.demotions(draft.queues)
        return ListOf(
            item,
            shortest=count if draft.has_queues else 0,
            longest=max(count, 0),
            increasing=True,
            because=f"scheme {draft.scheme.name}, queues = {draft.queues}",
        )

    return kind


_THRESHOLD = Size(1, MAX_THRESHOLD_BYTES, bare=True)
_thresholds = _levels(_THRESHOLD)


def _default_thresholds(draft: Draft) -> tuple[int, ...]:
    """The scheme's own where it has as many; an adaptive scheme can start anywhere. Raises FieldError."""
    scheme, count = draft.scheme, draft.scheme.queue_rule.demotions(draft.queues)
    if count in (0, len(scheme.thresholds_bytes)):
        return scheme.thresholds_bytes[:count]
    if scheme.threshold_rule is ThresholdRule.STATIC:
        raise FieldError(
            "thresholds", f"scheme {scheme.name} with {draft.queues} queues needs {count} of them"
        )
    return tuple(10_000 * 4**i for i in range(count))


def _default_percentiles(draft: Draft) -> tuple[float, ...]:
    return tuple(10.0 * (i + 1) for i in range(draft.scheme.queue_rule.demotions(draft.queues)))


def _default_shares(draft: Draft) -> tuple[float, ...] | None:
    """The least share of the scheme for each lower queue, and the rest for the first."""
    below, least = draft.queues - 1, draft.scheme.least_share
    return (1 - below * least, *[least] * below) if below and least else None


@dataclass(frozen=True)
class Shares(ListOf):
    """Parts of the link, one for each queue; null or an empty list: strict priorities."""

    def read(self, where: str, value: object) -> Any:
        if value in ([], ()):
            return None
        shares = super().read(where, value)
        if sum(shares) > 1 + 1e-9:
            raise FieldError(where, f"must add up to at most 1, not {sum(shares):g}")
        return shares

    def schema(self) -> Schema:
        return {
            **super().schema(),
            "minItems": 0,
            "description": "at most 1 in all; empty: strict priorities",
        }


def _shares(draft: Draft) -> Shares:
    return Shares(
        Number(0, 1), shortest=draft.queues, longest=draft.queues, because=f"queues = {draft.queues}"
    )


# ── Overrides ──────────────────────────────────────────────────────────────────────────────────────────────────────

_PORT_NAME = Text(r"(\*|[A-Za-z0-9._-]{1,64}:(\*|[0-9]{1,9}))", what='a name such as "s1:2", "s2:*" or "*"')
_PORT_NAMES = ListOf(_PORT_NAME, shortest=1)


@dataclass(frozen=True)
class Override:
    """What is different at some ports: thresholds that are fixed by hand, or the present ones frozen."""

    ports: tuple[str, ...]
    """Names of ports ("s1:2"), all of a switch ("s1:*"), or all ("*")."""
    thresholds: tuple[int, ...] | None
    """Bytes; None where the port keeps the thresholds that are in force."""
    freeze: bool

    def names(self, port_id: str) -> bool:
        """Whether it is about this port."""
        return any(name in (port_id, f"{port_id.rpartition(':')[0]}:*", "*") for name in self.ports)

    def to_document(self) -> dict[str, Any]:
        fixed = {"thresholds": list(self.thresholds)} if self.thresholds is not None else {"freeze": True}
        return {"ports": list(self.ports), **fixed}


@dataclass(frozen=True)
class OverrideTable(Kind):
    """A table with ports, and with either thresholds or freeze = true."""

    name: ClassVar[str] = "override"
    is_table: ClassVar[bool] = True
    thresholds: ListOf
    scheme: Scheme

    def read(self, where: str, value: object) -> Override:
        if not isinstance(value, Mapping):
            raise FieldError(where, f"must be {self.allowed}")
        for key in value:
            if key not in ("ports", "thresholds", "freeze"):
                raise unknown_key(f"{where}.{key}", str(key), ("ports", "thresholds", "freeze"))
        fixed, freeze = value.get("thresholds"), value.get("freeze")
        frozen = freeze is not None and Flag().read(f"{where}.freeze", freeze)
        if frozen == (fixed is not None):
            raise FieldError(where, "needs either thresholds or freeze = true, and not both")
        ports = _PORT_NAMES.read(f"{where}.ports", value.get("ports"))
        if frozen and not self.scheme.threshold_rule.adapts:
            raise FieldError(
                f"{where}.freeze", f"scheme {self.scheme.name} does not adapt: omit the override"
            )
        levels = None if frozen else self.thresholds.read(f"{where}.thresholds", fixed)
        return Override(ports, levels, frozen)

    @property
    def allowed(self) -> str:
        return "a table with ports, and with thresholds or freeze = true"

    def schema(self) -> Schema:
        ports = _PORT_NAMES.schema()
        kinds: list[Schema] = [{"ports": ports, "thresholds": self.thresholds.schema()}]
        if self.scheme.threshold_rule.adapts:
            kinds.append({"ports": ports, "freeze": {"const": True, "type": "boolean"}})
        closed = {"type": "object", "additionalProperties": False}
        return {"anyOf": [{"properties": kind, "required": list(kind), **closed} for kind in kinds]}


def _overrides(draft: Draft) -> ListOf:
    return ListOf(OverrideTable(_thresholds(draft), draft.scheme), longest=_MAX_OVERRIDES)


# ── The table ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class PolicyEntry:
    """One field of a policy."""

    name: str
    title: str
    """One to three words, for the form."""
    help: str
    kind_of: Callable[[Draft], Kind]
    default_of: Of
    applies: Applies
    absent: Any
    """The value in schemes that do not have the field."""
    null_is_value: bool
    """Null is a value of its own. Elsewhere null means the default."""

    def read(self, document: Mapping[str, Any], draft: Draft) -> Any:
        """The value in a document, or the default. Raises FieldError."""
        value = document.get(self.name)
        if not self.applies.test(draft) and self.applies.refusal is not None:
            empty = value in ([], ()) if self.absent == () else value is self.absent
            if not (value is None or empty):
                raise FieldError(self.name, f"{self.applies.refusal(draft)}; omit {self.name}")
            return self.absent
        if value is not None:
            return self.kind_of(draft).read(self.name, value)
        if self.null_is_value and self.name in document:
            return None
        return self.default_of(draft)

    def entry(self, scheme: Scheme) -> Entry | None:
        """The field as documents of this scheme have it; None if the scheme does not use it."""
        draft = Draft(scheme)
        if not self.applies.test(draft):
            return None
        at_default = Draft(scheme, {"queues": scheme.queues, "flow_queues": scheme.flow_queues})
        default = self.default_of(at_default)
        return Entry(self.name, self.name, self.kind_of(draft), self.help, self.title, default, nullable=True)

    def schema(self, scheme: Scheme) -> Schema:
        """JSON schema of the field in documents of this scheme."""
        draft, null = Draft(scheme), {"type": "null"}
        if not self.applies.test(draft) and self.applies.refusal is not None:
            empty: list[Schema] = [{"type": "array", "maxItems": 0}] if self.absent == () else []
            return {"anyOf": [*empty, null]}
        return {"anyOf": [{"description": self.help, **self.kind_of(draft).schema()}, null]}


def _field(
    kind: Kind | Callable[[Draft], Kind],
    help: str,
    *,
    title: str,
    default: Any,
    applies: Applies = _EVERYWHERE,
    absent: Any = None,
    null_is_value: bool = False,
) -> Any:
    """A field of the table. `default` is a value, or a function of the draft."""
    kind_of = (lambda draft: kind) if isinstance(kind, Kind) else kind
    default_of = default if callable(default) else (lambda draft: default)
    values = {
        "title": title,
        "help": help,
        "kind_of": kind_of,
        "default_of": default_of,
        "applies": applies,
        "absent": absent,
        "null_is_value": null_is_value,
    }
    return dataclasses.field(metadata=values)


def _mark(place: int) -> Of:
    return lambda draft: draft.scheme.marks_bytes[place]


_MARK = Size(1, _MAX_MARK_BYTES, bare=True)


@dataclass(frozen=True)
class PolicyFields:
    """What every port and host must do, as values. `policy.desired.Policy` adds what follows from them."""

    scheme: str = _field(
        Choice(tuple(SCHEMES)),
        "The scheme that hosts and ports carry out.",
        title="Scheme",
        default=lambda draft: draft.scheme.name,
    )
    queues: int = _field(
        _queue_counts,
        "Priorities of a port. Queue 0 is served first.",
        title="Queues",
        default=lambda draft: draft.scheme.queues,
    )
    thresholds: tuple[int, ...] = _field(
        _thresholds,
        "Demotion thresholds, increasing. A flow is demoted when it has sent more. Adaptive schemes start from them.",
        title="Thresholds",
        default=_default_thresholds,
        applies=_THRESHOLDS,
        absent=(),
    )
    percentiles: tuple[float, ...] = _field(
        _levels(Number(0, 100, "%", above=True)),
        "Percentiles of completed flow sizes that become the thresholds, increasing.",
        title="Percentiles",
        default=_default_percentiles,
        applies=_PERCENTILES,
        absent=(),
    )
    window_ms: int = _field(
        Whole(10, 3_600_000, "ms"),
        "Sliding window in which completed flows are counted.",
        title="Window",
        default=500,
        applies=_ADAPTIVE,
    )
    interval_ms: int = _field(
        Whole(10, 600_000, "ms"),
        "Time between two adjustments of the thresholds.",
        title="Interval",
        default=100,
        applies=_ADAPTIVE,
    )
    min_flows: int = _field(
        Whole(1, 1_000_000, "flows"),
        "A port adjusts its thresholds only when at least this many flows completed in the window.",
        title="Least flows",
        default=lambda draft: draft.scheme.min_flows,
        applies=_ADAPTIVE,
    )
    mark_at: int | None = _field(
        _MARK,
        "K: mark ECN when the backlog of the port, or its phantom queue, exceeds this.",
        title="Mark at",
        default=_mark(0),
        applies=_MARKS_AT,
    )
    mark_at_core: int | None = _field(
        _MARK,
        "K of the links between switches, if it differs from mark_at.",
        title="Core marks at",
        default=None,
        applies=_MARKS_PORT,
    )
    mark_min: int | None = _field(
        _MARK,
        "Mark no packet up to this backlog. Above it, the probability grows linearly up to mark_max.",
        title="Marks from",
        default=_mark(0),
        applies=_MARKS_RAMP,
    )
    mark_max: int | None = _field(
        _MARK,
        "Mark every packet above this backlog. Greater than mark_min, less than buffer.",
        title="Marks to",
        default=_mark(1),
        applies=_MARKS_RAMP,
    )
    buffer: int = _field(
        Size(3_000, 1_000_000_000, bare=True),
        "What a port buffers over all its queues.",
        title="Buffer",
        default=DEFAULT_BUFFER_BYTES,
    )
    shares: tuple[float, ...] | None = _field(
        _shares,
        "Part of the link that each queue is sure of, at most 1 in all. The rest goes to the first queue that has"
        " packets. Null or empty: strict priorities.",
        title="Shares",
        default=_default_shares,
        applies=_PRIORITIES,
        null_is_value=True,
    )
    flow_queues: bool = _field(
        Flag(),
        "Each flow has a queue of its own inside its priority (FISH; dataplane/laws/dqs.h).",
        title="Flow queues",
        default=lambda draft: draft.scheme.flow_queues,
        applies=_PRIORITIES,
        absent=False,
    )
    sub_queues: int | None = _field(
        Whole(1, _MAX_SUB_QUEUES),
        "Flow queues in each priority. A switch port of the testbed has 8 of them.",
        title="Sub-queues",
        default=_MAX_SUB_QUEUES,
        applies=_FLOW_QUEUES,
    )
    release: int | None = _field(
        Duration(0, 60 * NS_PER_S, bare=True),
        # FISH says "for long". Longer than a round trip: a flow keeps its queue from one window to the next.
        "How long an empty flow queue stays reserved for its flow.",
        title="Release after",
        default=NS_PER_MS,
        applies=_FLOW_QUEUES,
    )
    urgent_after: int | None = _field(
        Size(0, MAX_THRESHOLD_BYTES, bare=True),
        "A deadline flow is tagged as any other flow until it has sent this much.",
        title="Urgent after",
        default=lambda draft: draft.scheme.urgent_after_bytes,
        applies=_TAGS_URGENCY,
    )
    untagged_queue: int = _field(
        lambda draft: Whole(0, draft.queues - 1),
        "Queue of packets without a tag. By default the last one.",
        title="Untagged queue",
        default=lambda draft: draft.queues - 1,
    )
    idle_gap_ms: int = _field(
        Whole(1, 60_000, "ms"),
        "A flow ends when its direction of the connection sends no data for this long.",
        title="Idle gap",
        default=DEFAULT_IDLE_GAP_NS // NS_PER_MS,
    )
    tag_burst: int | None = _field(
        Size(0, 10**6, bare=True),
        "The most payload that leaves a host under one tag: one segment, or 65536 with segmentation offload. Hosts"
        " whose tags cannot be true are demoted. 0: hosts are not checked.",
        title="Tag burst",
        default=MSS_BYTES,
        applies=_READS_TAGS,
    )
    overrides: tuple[Override, ...] = _field(
        _overrides,
        "What is different at some ports. The last override that names a port decides.",
        title="Overrides",
        default=(),
        applies=_THRESHOLDS,
        absent=(),
    )


POLICY_FIELDS: tuple[PolicyEntry, ...] = tuple(
    PolicyEntry(field.name, **field.metadata) for field in dataclasses.fields(PolicyFields)
)


def read_fields(document: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every field. Raises FieldError that names the first bad field."""
    scheme = scheme_of(document)
    values: dict[str, Any] = {}
    for field in POLICY_FIELDS:
        values[field.name] = field.read(document, Draft(scheme, values))
    return values


def scheme_of(document: object) -> Scheme:
    """The scheme of a policy document that has no unknown fields. Raises FieldError."""
    if not isinstance(document, Mapping):
        raise FieldError("policy", "must be an object with at least a scheme")
    known = [field.name for field in POLICY_FIELDS]
    for key in document:
        if key not in known:
            raise unknown_key(str(key), str(key), known)
    return scheme_named(document.get("scheme"))


def demotions_of(document: Mapping[str, Any]) -> int:
    """How many thresholds the policy of this document has. Raises FieldError."""
    scheme = scheme_named(document.get("scheme"))
    queues = next(field for field in POLICY_FIELDS if field.name == "queues")
    return scheme.queue_rule.demotions(queues.read(document, Draft(scheme)))


def scheme_fields(scheme: Scheme) -> list[Entry]:
    """The fields that policies of this scheme use, the scheme itself left out."""
    found = [field.entry(scheme) for field in POLICY_FIELDS if field.name != "scheme"]
    return [one for one in found if one is not None]


def scheme_schema(scheme: Scheme) -> Schema:
    """JSON schema of the policies of one scheme."""
    properties = {field.name: field.schema(scheme) for field in POLICY_FIELDS}
    properties["scheme"] = {"const": scheme.name, "type": "string"}
    return {"type": "object", "properties": properties, "required": ["scheme"], "additionalProperties": False}
