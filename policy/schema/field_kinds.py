# SPDX-License-Identifier: Apache-2.0
"""What a policy field is made of: how it is read and shown, where it applies, its kind and its default.

The table of all fields is `policy/schema/fields.py`. Both the kind and the default of a field may depend on the scheme,
and on the fields above it in the table. `overrides`, thresholds that a user fixes or freezes at some ports, have their
kind here, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, ClassVar, TypeAlias

from sluice.policy.controls import Need, Parameter
from sluice.policy.errors import FieldError, refuse_unknown
from sluice.policy.schema.entries import Entry
from sluice.policy.schema.kinds import Flag, Kind, ListOf, Number, OneOfWhole, Schema, Size, Text, Whole
from sluice.policy.schemes import Marking, Scheme, ThresholdRule
from sluice.policy.schemes import ports as port_rules
from sluice.policy.units import PACKET_BYTES

MAX_QUEUES = 8


@dataclass(frozen=True)
class Draft:
    """A policy document while it is read: its scheme, and the values read so far."""

    scheme: Scheme
    read: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Values of the fields above the current one. Empty if the answer must hold for every document of the scheme."""
    network_mark_bytes: int = port_rules.REFERENCE_MARK_BYTES
    """K that the network's links need (policy/schema/fitting.py). Marks and buffer are in proportion by default."""

    @property
    def queues(self) -> int:
        """The number of queues. While it is unknown: the largest number that the scheme can have."""
        most = self.scheme.queues if self.scheme.threshold_rule is ThresholdRule.NONE else MAX_QUEUES
        return int(self.read.get("queues", most))


Of: TypeAlias = Callable[[Draft], Any]
"""A value that depends on the draft."""


@dataclass(frozen=True)
class Applies:
    """The schemes in which a field applies."""

    to: str
    """In words, for the reference."""
    test: Callable[[Draft], bool]
    refusal: str | None
    """Why a document of another scheme must omit the field, with {scheme} and {marks}, which is how the scheme marks.
    None: it may set the field, without effect."""


EVERYWHERE = Applies("every scheme", lambda draft: True, None)


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
    """The value in schemes without the field."""
    null_is_value: bool
    """Null is a value of its own. For all other fields, null means the default."""
    of_network: bool
    """The value belongs to the network, not to the scheme: a change of the policy keeps it unless it names another."""

    def read(self, document: Mapping[str, Any], draft: Draft) -> Any:
        """Return the value in the document, or the default. Raises FieldError."""
        value = document.get(self.name)
        if not self.applies.test(draft) and self.applies.refusal is not None:
            empty = value in ([], ()) if self.absent == () else value is self.absent
            if not (value is None or empty):
                scheme = draft.scheme
                why = self.applies.refusal.format(scheme=scheme.name, marks=_WAYS_TO_MARK[scheme.marking])
                raise FieldError(self.name, f"{why}; omit {self.name}")
            return self.absent
        if value is not None:
            return self.kind_of(draft).read(self.name, value)
        if self.null_is_value and self.name in document:
            return None
        return self.default_of(draft)

    def entry(self, scheme: Scheme) -> Entry | None:
        """The field as an entry of this scheme's documents; None if the scheme does not use the field."""
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


def policy_field(
    kind: Kind | Callable[[Draft], Kind],
    help: str,
    *,
    default: Any,
    title: str = "",
    applies: Applies = EVERYWHERE,
    absent: Any = None,
    null_is_value: bool = False,
    of_network: bool = False,
) -> Any:
    """A field of the table, as a dataclass field.

    `default` is a value or a function of the draft. `title`: one to three words, if they do not follow from the name.
    """
    kind_of = (lambda draft: kind) if isinstance(kind, Kind) else kind
    default_of = default if callable(default) else (lambda draft: default)
    return dataclasses.field(
        metadata={
            "title": title,
            "help": help,
            "kind_of": kind_of,
            "default_of": default_of,
            "applies": applies,
            "absent": absent,
            "null_is_value": null_is_value,
            "of_network": of_network,
        }
    )


_PORT_NAME = Text(r"(\*|[A-Za-z0-9._-]{1,64}:(\*|[0-9]{1,9}))", what='a name such as "s1:2", "s2:*" or "*"')
_PORT_NAMES = ListOf(_PORT_NAME, shortest=1)
PORT_NAMES = ListOf(_PORT_NAME)
"""Names of ports; the list may be empty."""
HOST_NAMES = ListOf(Text(r"[A-Za-z0-9._*-]{1,64}", what='a name such as "web1", "web*" or "*"'))
"""Names of hosts' agents; the list may be empty."""
_KEYS = ("ports", "thresholds", "freeze")


def name_port(names: Collection[str], port_id: str) -> bool:
    """Return whether one of the names is of this port, of its whole switch, or of all ports."""
    return any(name in (port_id, f"{port_id.rpartition(':')[0]}:*", "*") for name in names)


def name_host(names: Collection[str], host: str) -> bool:
    """Return whether one of the names is of this host; "*" in a name stands for any characters."""
    return any(fnmatchcase(host, name) for name in names)


@dataclass(frozen=True)
class Override:
    """A rule for some ports. It sets their thresholds, or freezes the thresholds that are in force."""

    ports: tuple[str, ...]
    """Names of ports ("s1:2"), all ports of a switch ("s1:*"), or all ports ("*")."""
    thresholds: tuple[int, ...] | None
    """Bytes. None if the port keeps the thresholds that are in force."""

    @property
    def freeze(self) -> bool:
        """The port keeps the thresholds that are in force."""
        return self.thresholds is None

    def names(self, port_id: str) -> bool:
        """Return whether the rule applies to this port."""
        return name_port(self.ports, port_id)

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form."""
        fixed = {"thresholds": list(self.thresholds)} if self.thresholds is not None else {"freeze": True}
        return {"ports": list(self.ports), **fixed}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Override:
        """The inverse of `to_document`, for documents that have been checked."""
        fixed = document.get("thresholds")
        return cls(tuple(document["ports"]), None if fixed is None else tuple(fixed))


@dataclass(frozen=True)
class OverrideTable(Kind):
    """A table with `ports`, and with either `thresholds` or `freeze = true`."""

    name: ClassVar[str] = "override"
    is_table: ClassVar[bool] = True
    thresholds: ListOf
    scheme: Scheme

    def read(self, where: str, value: object) -> Override:
        if not isinstance(value, Mapping):
            raise FieldError(where, f"must be {self.allowed}")
        refuse_unknown(value, _KEYS, f"{where}.")
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
        return Override(ports, levels)

    def show(self, value: Any) -> str:
        does = (
            f"thresholds = {self.thresholds.show(value.thresholds)}"
            if value.thresholds is not None
            else "freeze = true"
        )
        return f"{{ ports = {_PORT_NAMES.show(value.ports)}, {does} }}"

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


@dataclass(frozen=True)
class ParameterValues:
    """The values of all parameters of a control, in the order of its file."""

    names: tuple[str, ...]
    values: tuple[int, ...]

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form."""
        return dict(zip(self.names, self.values, strict=True))


@dataclass(frozen=True)
class ParameterTable(Kind):
    """A table of parameters of a control; those that it omits have their defaults."""

    name: ClassVar[str] = "table"
    parameters: tuple[Parameter, ...]

    def read(self, where: str, value: object) -> ParameterValues:
        if not isinstance(value, Mapping):
            raise self.refuse(where, value)
        names = tuple(parameter.name for parameter in self.parameters)
        refuse_unknown(value, names, f"{where}.")
        number = Whole(0, 2**32 - 1)
        given = {name: number.read(f"{where}.{name}", value[name]) for name in value}
        return ParameterValues(names, tuple(given.get(p.name, p.default) for p in self.parameters))

    @property
    def allowed(self) -> str:
        return f"a table with numbers for {', '.join(parameter.name for parameter in self.parameters)}"

    def schema(self) -> Schema:
        number = Whole(0, 2**32 - 1).schema()
        return {
            "type": "object",
            "properties": {p.name: {"description": p.help, **number} for p in self.parameters},
            "additionalProperties": False,
        }

    def show(self, value: Any) -> str:
        document = value.to_document() if isinstance(value, ParameterValues) else value
        return f"{{ {', '.join(f'{name} = {number}' for name, number in document.items())} }}"


MAX_THRESHOLD_BYTES = 10**9
MAX_GROWTH = 1000
MARKS_IN_GROWTH = 8
"""The growth of scheme sluice is this part of the marking threshold: a window regains it in eight round trips."""
LAST_MARK_FACTOR = 3
"""Measured (docs/explanation/sluice.md): 1 costs 1.4 % of the mean FCT."""
MAX_SUB_QUEUES = 32
"""In each priority: SL_DQS_MAX_QUEUES in dataplane/laws/dqs.h."""
LEAST_OWN_MARK_BYTES = 4 * PACKET_BYTES
"""A scheme's own marking threshold is scaled down to no less, so that a window of a few packets passes unmarked."""
_MARK_PLACES = {"mark_at": 0, "mark_min": 0, "mark_max": 1}
"""Fields of marking thresholds, and their places in a scheme's marks_bytes."""
_MAX_OVERRIDES = 1000
_SHARES_SLACK = 1e-9
"""Shares may exceed 1 in all by this much, because sums of decimal fractions are rounded."""


# ── Where a field applies ──────────────────────────────────────────────────────────────────────────────────────────


_WAYS_TO_MARK = {
    Marking.NONE: "does not mark",
    Marking.PORT: "marks at mark_at",
    Marking.RED: "marks from mark_min to mark_max",
    Marking.PHANTOM: "marks at mark_at of its phantom queue",
}
THRESHOLDS = Applies(
    "schemes with thresholds",
    lambda draft: draft.scheme.threshold_rule is not ThresholdRule.NONE,
    "scheme {scheme} has no thresholds",
)
PERCENTILES = Applies(
    "schemes whose thresholds are percentiles",
    lambda draft: draft.scheme.threshold_rule is ThresholdRule.PERCENTILE,
    "scheme {scheme} has no percentiles",
)
ONLINE = Applies(
    "schemes whose thresholds have the least mean slowdown",
    lambda draft: draft.scheme.threshold_rule is ThresholdRule.ONLINE,
    "scheme {scheme} computes no thresholds by mean slowdown",
)
ADAPTIVE = Applies("schemes that adapt", lambda draft: draft.scheme.threshold_rule.adapts, None)
MARKS_AT = Applies(
    "schemes that mark at one threshold",
    lambda draft: draft.scheme.marking in (Marking.PORT, Marking.PHANTOM),
    "scheme {scheme} {marks}",
)
MARKS_PORT = Applies(
    "schemes that mark by the port's backlog",
    lambda draft: draft.scheme.marking is Marking.PORT,
    "scheme {scheme} {marks}",
)
MARKS_RAMP = Applies(
    "schemes that mark with a probability",
    lambda draft: draft.scheme.marking is Marking.RED,
    "scheme {scheme} {marks}",
)
GROWS = Applies(
    "schemes whose congestion control grows by a policy's packets",
    lambda draft: draft.scheme.control.of_window,
    "in scheme {scheme} the congestion control decides about its growth",
)
PARAMETERS = Applies(
    "schemes whose congestion control has parameters",
    lambda draft: bool(draft.scheme.control.parameters),
    "the congestion control of scheme {scheme} has no parameters",
)
PRIORITIES = Applies(
    "schemes with priorities",
    lambda draft: Need.SHORTEST_FIRST not in draft.scheme.needs,
    "scheme {scheme} has one queue for all flows, without priorities",
)
FLOW_QUEUES = Applies(
    "policies with flow_queues",
    lambda draft: PRIORITIES.test(draft) and draft.read.get("flow_queues", True),
    "applies only with flow_queues = true",
)
TAGS_URGENCY = Applies(
    "schemes that tag urgency",
    lambda draft: draft.scheme.tags_deadlines,
    "scheme {scheme} tags no urgency",
)
LEVELS = Applies(
    "schemes whose programs choose a level",
    lambda draft: draft.scheme.has_levels,
    "scheme {scheme} has no levels",
)
READS_TAGS = Applies(
    "schemes whose tags decide about queues",
    lambda draft: draft.scheme.queue_rule.reads_tags,
    "in scheme {scheme} tags do not decide about queues",
)


# ── Kinds ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def queue_counts(draft: Draft) -> Kind:
    """The numbers of queues that the scheme's queue rule allows."""
    scheme = draft.scheme
    if scheme.threshold_rule is ThresholdRule.NONE:
        return OneOfWhole((scheme.queues,))
    counts = tuple(count for count in range(1, MAX_QUEUES + 1) if scheme.queue_rule.allows(count))
    return Whole(1, MAX_QUEUES) if len(counts) == MAX_QUEUES else OneOfWhole(counts)


def _one_for_each_threshold(item: Kind) -> Callable[[Draft], ListOf]:
    """An increasing list with one value for each demotion threshold."""

    def kind(draft: Draft) -> ListOf:
        count = draft.scheme.queue_rule.demotions(draft.queues)
        return ListOf(
            item,
            shortest=count if "queues" in draft.read else 0,
            longest=max(count, 0),
            increasing=True,
            because=f"scheme {draft.scheme.name}, queues = {draft.queues}",
        )

    return kind


thresholds = _one_for_each_threshold(Size(1, MAX_THRESHOLD_BYTES, bare=True))
percentiles = _one_for_each_threshold(Number(0, 100, "%", above=True))

MARK = Size(1, port_rules.MAX_BACKLOG_BYTES, bare=True)
"""A marking threshold in bytes."""


@dataclass(frozen=True)
class Shares(ListOf):
    """A share of the link for each queue, at most 1 in all. Null or an empty list: strict priorities."""

    def read(self, where: str, value: object) -> Any:
        if value in ([], ()):
            return None
        shares = super().read(where, value)
        if sum(shares) > 1 + _SHARES_SLACK:
            raise FieldError(where, f"must add up to at most 1, not {sum(shares):g}")
        return shares

    def schema(self) -> Schema:
        return {
            **super().schema(),
            "minItems": 0,
            "description": "At most 1 in all. An empty list means strict priorities.",
        }


def shares(draft: Draft) -> Shares:
    """One share for each queue."""
    return Shares(
        Number(0, 1), shortest=draft.queues, longest=draft.queues, because=f"queues = {draft.queues}"
    )


def overrides(draft: Draft) -> ListOf:
    """A list of overrides, with thresholds of the scheme."""
    return ListOf(OverrideTable(thresholds(draft), draft.scheme), longest=_MAX_OVERRIDES)


# ── Defaults ───────────────────────────────────────────────────────────────────────────────────────────────────────


def default_thresholds(draft: Draft) -> tuple[int, ...]:
    """The scheme's thresholds if it has the right number of them. Raises FieldError if a static scheme has not.

    A scheme that adapts can start from any thresholds: 10 KB, 40 KB, 160 KB, …
    """
    scheme, count = draft.scheme, draft.scheme.queue_rule.demotions(draft.queues)
    if count in (0, len(scheme.thresholds_bytes)):
        sizes_bytes, most = scheme.thresholds_bytes[:count], draft.read.get("most_threshold")
        if most is None:
            return sizes_bytes
        # No threshold is above the most, and they still increase.
        return tuple(max(min(size, most - (count - 1 - i)), i + 1) for i, size in enumerate(sizes_bytes))
    if scheme.threshold_rule is ThresholdRule.STATIC:
        raise FieldError(
            "thresholds",
            f"is missing: scheme {scheme.name} with {draft.queues} queues needs a list of {count} values",
        )
    return tuple(10_000 * 4**i for i in range(count))


def default_percentiles(draft: Draft) -> tuple[float, ...]:
    """10, 20, … %: one for each threshold."""
    return tuple(10.0 * (i + 1) for i in range(draft.scheme.queue_rule.demotions(draft.queues)))


def default_shares(draft: Draft) -> tuple[float, ...] | None:
    """The scheme's least share for each lower queue, and the rest for the first queue."""
    below, least = draft.queues - 1, draft.scheme.least_share
    return (1 - below * least, *[least] * below) if below and least else None


def default_mark(place: int) -> Of:
    """The scheme's marking threshold at this place of `marks_bytes`, in proportion to the network's K."""
    return lambda draft: _mark_in_network(draft, place)


def _mark_in_network(draft: Draft, place: int) -> int:
    own = draft.scheme.marks_bytes[place]
    scaled = _in_network(draft, own)
    return min(max(scaled, min(own, LEAST_OWN_MARK_BYTES)), port_rules.MAX_BACKLOG_BYTES)


def _in_network(draft: Draft, at_reference_bytes: int) -> int:
    """Return a size that fits the papers' networks, scaled to this one."""
    return at_reference_bytes * draft.network_mark_bytes // port_rules.REFERENCE_MARK_BYTES


def _mark_at(draft: Draft) -> int:
    """K of the draft, or the scheme's default while it is not read."""
    return draft.read.get("mark_at") or _mark_in_network(draft, 0)


def default_buffer(draft: Draft) -> int:
    """In proportion to the network's K; room for MARKS_IN_BUFFER marking thresholds if the scheme marks by queue."""
    if draft.scheme.mark_by is not port_rules.MarkBy.QUEUE:
        # The buffer has room for the largest marking threshold that the document names.
        read = ((draft.read.get(name), place) for name, place in _MARK_PLACES.items())
        marks = (mark for mark, place in read if mark and mark != _mark_in_network(draft, place))
        for_mark = port_rules.DEFAULT_BUFFER_BYTES * max(marks, default=0) // port_rules.REFERENCE_MARK_BYTES
        wanted = max(
            _in_network(draft, port_rules.DEFAULT_BUFFER_BYTES),
            min(for_mark, port_rules.DEFAULT_BUFFER_BYTES),
        )
    else:
        wanted = port_rules.MARKS_IN_BUFFER * _mark_at(draft)
    return min(max(wanted, port_rules.MIN_BUFFER_BYTES), port_rules.MAX_BACKLOG_BYTES)


def default_mark_by(draft: Draft) -> port_rules.MarkBy:
    """The scheme's, but the port's in a buffer too small for queues that wait for each other."""
    buffer_bytes = draft.read.get("buffer", default_buffer(draft))
    has_room = buffer_bytes >= port_rules.LEAST_MARKS_IN_BUFFER * _mark_at(draft)
    return draft.scheme.mark_by if has_room else port_rules.MarkBy.PORT


def default_last_mark_factor(draft: Draft) -> int:
    """LAST_MARK_FACTOR if the port marks by queue: only then do flows fill a queue of their own."""
    return LAST_MARK_FACTOR if _marks_by_queue(draft) else 1


def default_least_threshold(draft: Draft) -> int:
    """The marking threshold, which is about a bandwidth-delay product, if the port marks by queue."""
    return _mark_at(draft) if _marks_by_queue(draft) else 1


def _marks_by_queue(draft: Draft) -> bool:
    return bool(draft.read.get("mark_by", draft.scheme.mark_by) == port_rules.MarkBy.QUEUE)


def parameters(draft: Draft) -> ParameterTable:
    """The parameters of the scheme's control."""
    return ParameterTable(draft.scheme.control.parameters)


def default_parameters(draft: Draft) -> ParameterValues:
    """Those that the control's file says."""
    return parameters(draft).read("", {})


def default_growth(draft: Draft) -> int:
    """One packet, as in the papers, or a part of the marking threshold, which is about a bandwidth-delay product."""
    if not draft.scheme.grows:
        return 1
    return min(max(_mark_at(draft) // (MARKS_IN_GROWTH * PACKET_BYTES), 1), MAX_GROWTH)
