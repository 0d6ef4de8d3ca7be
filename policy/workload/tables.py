# SPDX-License-Identifier: Apache-2.0
"""The [workload] and [deadlines] tables of a scenario, checked. The caller passes functions that read files.

A workload is random flows, an incast, a table of flows, or a list of all its flows. The keys of a listed flow
are in `policy/workload/listed_flows.py`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import TableOf, entries, entry, read
from sluice.policy.schema.kinds import ListOf, Number, OneOrMore, Size, Text, Whole
from sluice.policy.units import MAX_FLOW_BYTES, MIN_FLOW_BYTES, format_bytes
from sluice.policy.workload.collectives import collectives
from sluice.policy.workload.flows import FLOWS, LEVEL, PATTERN, CommonKeys, Deadlines, Shift, Workload
from sluice.policy.workload.listed_flows import CONTROL, VARY, ExplicitWorkload, FlowTable, explicit_workload
from sluice.policy.workload.sizes import Group, Mix, MixPart, SizeCdf, Sizes

LoadCdf = Callable[[str], SizeCdf]
LoadTrace = Callable[[str], FlowTable]
AnyWorkload = Workload | ExplicitWorkload

_HOST = Text(longest=64, what="the name of a host")
_FILE = Text(longest=4096)
ENDLESS = 2**62
"""Answers of requests besides other flows: they end with those."""
_FLOW_SIZE = Size(MIN_FLOW_BYTES, MAX_FLOW_BYTES)


@dataclass(frozen=True)
class MixKeys:
    """One part of a mix of sizes."""

    share: float = entry(Number(0, 1), "Share of the flows; the shares of a mix add up to 1.")
    bytes: int | None = entry(_FLOW_SIZE, "One size for all flows of the part.", default=None)
    sizes: str | None = entry(_FILE, "Or a distribution of sizes.", default=None)
    sources: tuple[str, ...] = entry(
        ListOf(_HOST), "Hosts that send this part. By default all.", key="from", default=()
    )
    control: str | None = CONTROL
    level: int | None = LEVEL


@dataclass(frozen=True)
class ShiftKeys:
    """Other sizes from some point of a run on."""

    at: float = entry(Number(0, 1), "Fraction of the flows after which the sizes change.", default=0.5)
    sizes: str | None = entry(_FILE, "A distribution of sizes.", default=None)
    mix: tuple[MixKeys, ...] = entry(ListOf(TableOf(MixKeys), shortest=1), "Or a mix of sizes.", default=())


@dataclass(frozen=True)
class AnswerKeys:
    """The answers to the requests of an incast."""

    fanin: int | None = entry(Whole(1, 65_534), "Hosts that answer a request. Needed.", default=None)
    bytes: int | None = entry(_FLOW_SIZE, "Size of each answer.", default=None)
    total: int | None = entry(
        Size(1, MAX_FLOW_BYTES), "Or size of all answers to a request together.", default=None
    )
    label: str = entry(
        Text(longest=48),
        "The answers to request n have the label LABEL/n. [workload.incast] has the default incast, the pattern none.",
        default="",
    )


@dataclass(frozen=True, kw_only=True)
class IncastBeside(AnswerKeys):
    """A [workload.incast] table: requests besides random flows."""

    share: float = entry(
        Number(0.001, 0.99), "Part of the load that the answers have; the other flows have the rest."
    )


@dataclass(frozen=True)
class RandomKeys(CommonKeys):
    """Random flows: patterns all-to-all, many-to-one and permutation."""

    sizes: str | None = entry(
        _FILE, "A distribution: a name in sluice/data/workloads, or a .cdf file.", default=None
    )
    mix: tuple[MixKeys, ...] = entry(
        ListOf(TableOf(MixKeys), shortest=1), "Or a mix of sizes and distributions.", default=()
    )
    shift: tuple[ShiftKeys, ...] = entry(
        OneOrMore(TableOf(ShiftKeys), longest=100),
        "Other sizes from some point on: one table, or a list of them in the order of their points.",
        default=(),
    )
    incast: IncastBeside | None = entry(
        TableOf(IncastBeside),
        "Requests besides the flows, whose answers have a part of the load.",
        default=None,
    )


@dataclass(frozen=True)
class IncastKeys(AnswerKeys, CommonKeys):
    """Pattern incast: many hosts answer one at the same time."""


@dataclass(frozen=True)
class FlowTableKeys:
    """The flows of a table, each with its sender, receiver and, if it has one, deadline."""

    trace: str = entry(
        _FILE,
        "A table of flows; its name ends in .csv or .parquet. Or a list as HPCC's ns-3, Homa's simulator or htsim has"
        " it, which is known by its content: host 0 there is h1.",
    )
    flows: int | None = entry(FLOWS, "Only the first rows of the table. By default all.", default=None)
    vary: bool = VARY


def workload_from(table: object, deadlines: object, load_cdf: LoadCdf, load_trace: LoadTrace) -> AnyWorkload:
    """Read a [workload]. Raises FieldError that names the key."""
    if not isinstance(table, Mapping):
        raise FieldError("workload", "must be a table")
    if "flow" in table or "collective" in table:
        if deadlines is not None:
            raise FieldError("deadlines", "is for random flows; each [[workload.flow]] has its own deadline")
        return explicit_workload(
            table, tuple(collectives(table["collective"])) if "collective" in table else ()
        )
    if "trace" in table:
        if deadlines is not None:
            raise FieldError(
                "deadlines", "is for random flows; the table's column deadline says which flows have one"
            )
        keys = read(FlowTableKeys, table, "workload")
        return replace(load_trace(keys.trace).workload(keys.flows), vary=keys.vary)
    given = None if deadlines is None else read(Deadlines, deadlines, "deadlines")
    if given is not None and given.min_us > given.max_us:
        raise FieldError("deadlines.min", "must not exceed deadlines.max")
    return _random(table, given, load_cdf)


def _random(table: Mapping[str, Any], deadlines: Deadlines | None, load_cdf: LoadCdf) -> Workload:
    keys: IncastKeys | RandomKeys
    requests: dict[str, Any]
    shifts: tuple[Shift, ...] = ()
    if PATTERN.read("workload.pattern", table.get("pattern", "all-to-all")) == "incast":
        keys = read(IncastKeys, table, "workload")
        requests = _requests(keys, "workload")
    else:
        keys = read(RandomKeys, table, "workload")
        requests = {"sizes": _sizes(keys, "workload", load_cdf)}
        shifts = _shifts(keys.shift, load_cdf)
    _check_common(keys)
    common = {key.name: getattr(keys, key.name) for key in entries(CommonKeys)}
    workload = Workload(**common, shifts=shifts, deadlines=deadlines, **requests)
    if isinstance(keys, RandomKeys) and keys.incast is not None:
        workload = replace(workload, incast=_beside(workload, keys.incast))
    for part in (workload, workload.incast):
        for cdf in part.all_sizes if part else ():
            _check_scale(keys.scale, cdf.largest_bytes)
    return workload


def _beside(workload: Workload, keys: IncastBeside) -> Workload:
    """Return the requests besides a workload. They have its receiver, its scale and its deadlines."""
    if workload.load is None:
        raise FieldError("workload.incast", "has a part of the load: give load in place of interarrival")
    requests = {"label": "incast", **_requests(keys, "workload.incast")}
    load = keys.share * workload.load
    return replace(workload, pattern="incast", flows=ENDLESS, load=load, shifts=(), **requests)


def _shifts(tables: tuple[ShiftKeys, ...], load_cdf: LoadCdf) -> tuple[Shift, ...]:
    for earlier, later in pairwise(tables):
        if later.at <= earlier.at:
            raise FieldError(
                "workload.shift",
                f"must be in the order of the points, but at = {later.at:g} follows at = {earlier.at:g}; "
                "give each shift a greater `at` than the one before",
            )
    places = ["workload.shift"] if len(tables) == 1 else [f"workload.shift[{i}]" for i in range(len(tables))]
    return tuple(
        Shift(keys.at, _sizes(keys, where, load_cdf)) for keys, where in zip(tables, places, strict=True)
    )


def _check_scale(scale: float, largest_bytes: float) -> None:
    if scale * largest_bytes > MAX_FLOW_BYTES:
        raise FieldError(
            "workload.scale",
            f"must be at most {MAX_FLOW_BYTES / largest_bytes:g} for a largest size of {format_bytes(largest_bytes)}: "
            f"flows have at most {MAX_FLOW_BYTES // 10**9} GB",
        )


def _check_common(keys: CommonKeys) -> None:
    if (keys.load is None) == (keys.interarrival_s is None):
        raise FieldError(
            "workload.load",
            "give either load (of the links, for example 0.8) or interarrival "
            '(mean time between starts, for example "0.1ms")',
        )
    if keys.pattern == "many-to-one" and keys.to is None:
        raise FieldError(
            "workload.to", 'is missing: pattern many-to-one needs a receiver, for example to = "h1"'
        )
    if keys.pattern not in ("many-to-one", "incast") and keys.to is not None:
        raise FieldError(
            "workload.to",
            f"names the receiver of patterns many-to-one and incast; omit it for {keys.pattern}",
        )


def _requests(keys: AnswerKeys, where: str) -> dict[str, Any]:
    """Return an incast's fields of `Workload`. Each sender answers with `bytes`, or an equal part of `total`."""
    if keys.fanin is None:
        raise FieldError(f"{where}.fanin", "is missing: an incast needs the number of its senders")
    if (keys.bytes is None) == (keys.total is None):
        raise FieldError(
            f"{where}.bytes",
            'give either bytes (of each answer, for example "20KB") or total (of all answers to a request)',
        )
    size_bytes = keys.bytes if keys.total is None else -(-keys.total // keys.fanin)
    if size_bytes is None or size_bytes < MIN_FLOW_BYTES:
        raise FieldError(f"{where}.total", f"must be at least {MIN_FLOW_BYTES} B for each sender")
    label = {"label": keys.label} if keys.label else {}
    return {"sizes": Mix((MixPart(size_bytes, 1.0),)), "fanin": keys.fanin, **label}


def _sizes(keys: RandomKeys | ShiftKeys, where: str, load_cdf: LoadCdf) -> Sizes:
    if (keys.sizes is None) == (not keys.mix):
        raise FieldError(f"{where}.sizes", "give either sizes (a table's name or a CDF file) or a mix")
    if keys.sizes is not None:
        return load_cdf(keys.sizes)
    if abs(sum(part.share for part in keys.mix) - 1) > 1e-6:
        raise FieldError(f"{where}.mix", "shares must add up to 1")
    parts = []
    for i, part in enumerate(keys.mix):
        if (part.bytes is None) == (part.sizes is None):
            problem = "give either bytes (one size) or sizes (a table's name or a CDF file)"
            raise FieldError(f"{where}.mix[{i}].bytes", problem)
        cdf = None if part.sizes is None else load_cdf(part.sizes)
        group = Group(part.sources, part.control or "", part.level or 0)
        parts.append(MixPart(part.bytes, part.share, cdf, group))
    return Mix(tuple(parts))
