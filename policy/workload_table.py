# SPDX-License-Identifier: Apache-2.0
"""The [workload] and [deadlines] tables of a scenario, checked. Files are read by the caller's functions."""

from __future__ import annotations

from collections.abc import Callable

from policy import units
from policy.errors import FieldError
from policy.explicit import ExplicitWorkload, explicit_workload
from policy.patterns import PATTERNS
from policy.sizes import Mix, MixPart, SizeCdf
from policy.table import Table
from policy.traces import Trace
from policy.workload import MIN_FLOW_BYTES, Deadlines, TraceWorkload, Workload

LoadCdf = Callable[[str], SizeCdf]
LoadTrace = Callable[[str], Trace]
AnyWorkload = Workload | TraceWorkload | ExplicitWorkload

MAX_LOAD = 0.99
MAX_FLOWS = 10**9
MAX_FANIN = 65_534


def workload_from(table: Table, deadlines: object, load_cdf: LoadCdf, load_trace: LoadTrace) -> AnyWorkload:
    """FieldError names the key."""
    if table.has("flow"):
        if deadlines is not None:
            raise FieldError("deadlines", "is for random flows; each [[workload.flow]] says its own")
        return explicit_workload(table)
    given = None if deadlines is None else _deadlines(Table("deadlines", deadlines))
    workload = _trace(table, given, load_trace) if table.has("trace") else _random(table, given, load_cdf)
    table.done()
    return workload


def _trace(table: Table, deadlines: Deadlines | None, load_trace: LoadTrace) -> TraceWorkload:
    trace = load_trace(table.text("trace"))
    return TraceWorkload(
        trace=trace,
        to=table.text("to"),
        flows=table.whole("flows", len(trace), 1, len(trace)),
        scale=_scale(table),
        deadlines=deadlines,
        size_known=_size_known(table),
    )


def _random(table: Table, deadlines: Deadlines | None, load_cdf: LoadCdf) -> Workload:
    pattern = table.one_of("pattern", "all-to-all", PATTERNS)
    if pattern == "incast":
        fanin = table.whole("fanin", None, 1, MAX_FANIN)
        sizes: SizeCdf | Mix = _answers(table, fanin)
        shift = None
    else:
        fanin, sizes = 1, _sizes(table, load_cdf)
        shift = _shift(table, load_cdf)
    load, interarrival_s = _arrivals(table)
    return Workload(
        sizes=sizes,
        pattern=pattern,
        to=_receiver(table, pattern),
        load=load,
        flows=table.whole("flows", None, 1, MAX_FLOWS),
        scale=_scale(table),
        shift_at=shift[0] if shift else None,
        shifted=shift[1] if shift else None,
        deadlines=deadlines,
        interarrival_s=interarrival_s,
        fanin=fanin,
        size_known=_size_known(table),
    )


def _scale(table: Table) -> float:
    return table.number("scale", 1.0, 1e-6, 1e6)


def _size_known(table: Table) -> float:
    return table.number("size_known", 0.0, 0.0, 1.0)


def _receiver(table: Table, pattern: str) -> str | None:
    """The one receiver: many-to-one needs it, incast may have one."""
    if pattern == "many-to-one" and not table.has("to"):
        raise FieldError(
            table.name("to"), 'is missing: pattern many-to-one needs its receiver, as in to = "h1"'
        )
    if pattern not in ("many-to-one", "incast") and table.has("to"):
        raise FieldError(
            table.name("to"), f"names the receiver of patterns many-to-one and incast; drop it for {pattern}"
        )
    return table.text("to") if table.has("to") else None


def _arrivals(table: Table) -> tuple[float | None, float | None]:
    """The load, or the mean time between two starts in seconds."""
    if table.has("load") == table.has("interarrival"):
        raise FieldError(
            table.name("load"),
            'give either load (of the links, as in 0.8) or interarrival (mean time between starts, as in "0.1ms")',
        )
    if table.has("interarrival"):
        interarrival_ns = table.time_ns("interarrival", None)
        if interarrival_ns <= 0:
            raise FieldError(table.name("interarrival"), "must be above zero")
        return None, interarrival_ns / 1e9
    load = table.left["load"]
    if isinstance(load, int | float) and not isinstance(load, bool) and load >= 1:
        raise FieldError(
            table.name("load"),
            f"must be below 1, not {load!r}: a link that is offered more than it carries queues without end; "
            f"give at most {MAX_LOAD}, or interarrival for a burst",
        )
    return table.number("load", None, 0.001, MAX_LOAD), None


def _answers(table: Table, fanin: int) -> Mix:
    """What each of an incast's senders answers: `bytes` each, or its part of `total`."""
    if table.has("bytes") == table.has("total"):
        raise FieldError(
            table.name("bytes"),
            'give either bytes (of each answer, as in "20KB") or total (of all answers to a request)',
        )
    key = "bytes" if table.has("bytes") else "total"
    size_bytes = units.size_bytes(table.name(key), table.need(key))
    if key == "total":
        size_bytes = -(-size_bytes // fanin)
    if size_bytes < MIN_FLOW_BYTES:
        raise FieldError(table.name(key), f"must come to at least {MIN_FLOW_BYTES} B for each sender")
    return Mix((MixPart(size_bytes, 1.0, ()),))


def _shift(table: Table, load_cdf: LoadCdf) -> tuple[float, SizeCdf | Mix] | None:
    if not table.has("shift"):
        return None
    shift = Table(table.name("shift"), table.take("shift"))
    found = shift.number("at", 0.5, 0.0, 1.0), _sizes(shift, load_cdf)
    shift.done()
    return found


def _sizes(table: Table, load_cdf: LoadCdf) -> SizeCdf | Mix:
    if table.has("sizes") == table.has("mix"):
        raise FieldError(table.name("sizes"), "give either sizes (a table's name or a CDF file) or a mix")
    if table.has("sizes"):
        return load_cdf(table.text("sizes"))
    mix = table.take("mix")
    if not isinstance(mix, list) or not mix:
        raise FieldError(table.name("mix"), 'must be a list of { bytes = "10KB", share = 0.8 }')
    parts = tuple(_mix_part(Table(f"{table.name('mix')}[{i}]", part), load_cdf) for i, part in enumerate(mix))
    if abs(sum(part.share for part in parts) - 1) > 1e-6:
        raise FieldError(table.name("mix"), "shares must add up to 1")
    return Mix(parts)


def _mix_part(table: Table, load_cdf: LoadCdf) -> MixPart:
    sources = table.take("from", [])
    if not isinstance(sources, list) or not all(isinstance(name, str) for name in sources):
        raise FieldError(table.name("from"), 'must be a list of host names, as in ["h2", "h3"]')
    if table.has("bytes") == table.has("sizes"):
        raise FieldError(
            table.name("bytes"), "give either bytes (one size) or sizes (a table's name or a CDF file)"
        )
    cdf = load_cdf(table.text("sizes")) if table.has("sizes") else None
    size_bytes = None if cdf else units.size_bytes(table.name("bytes"), table.need("bytes"))
    if size_bytes is not None and size_bytes < MIN_FLOW_BYTES:
        raise FieldError(table.name("bytes"), f"must be at least {MIN_FLOW_BYTES} B")
    part = MixPart(size_bytes, table.number("share", None, 0.0, 1.0), tuple(sources), cdf)
    table.done()
    return part


def _deadlines(table: Table) -> Deadlines:
    def time_us(key: str, default: str) -> float:
        return table.time_ns(key, default) / 1000

    deadlines = Deadlines(
        share=table.number("share", None, 0.0, 1.0),
        distribution=table.one_of("distribution", "uniform", ("uniform", "exponential")),
        min_us=time_us("min", "5ms"),
        max_us=time_us("max", "25ms"),
        mean_us=time_us("mean", "15ms"),
    )
    if deadlines.min_us > deadlines.max_us:
        raise FieldError("deadlines.min", "must not exceed deadlines.max")
    table.done()
    return deadlines
