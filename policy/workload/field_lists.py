# SPDX-License-Identifier: Apache-2.0
"""Lists of flows as other simulators have them, known by their content. Hosts are numbered from 0 there: 0 is h1.

    HPCC's ns-3     3                                 a count, then: src dst priority port bytes start_s
                    0 2 3 100 150000 2.0
    Homa            0 2 310000 0.000013               src dst bytes start_s
    htsim           Nodes 4                           then: src->dst [id N] start picoseconds size bytes
                    Connections 1
                    0->2 start 13000 size 310000

Times count from the first flow if it starts a second or more after 0. Flows of fewer than 64 bytes have 64.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sluice.policy.errors import FieldError, shortened
from sluice.policy.units import MIN_FLOW_BYTES, NS_PER_S
from sluice.policy.workload.listed_flows import FlowTable

COLUMNS = ("time_ns", "src", "dst", "bytes")
_PS_PER_NS = 1000
_HTSIM = re.compile(r"([0-9]+)->([0-9]+)((?: [a-z_]+ [0-9.]+)*)")
_COUNT = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class _Flow:
    place: str
    start_ns: float
    source: int
    sink: int
    size_bytes: int


_Read = Callable[[str, str], _Flow | None]
"""Reads a line, by its place and its text. None: the line has no flow."""


def parse_list(name: str, text: str) -> FlowTable | None:
    """Return the flows of a list; None if it has none of these forms. Raises FieldError that names the line."""
    lines = [
        (f"line {number}", line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip() and not line.lstrip().startswith("#")
    ]
    form = _form(lines)
    if form is None:
        return None
    title, reader, flow_lines = form
    flows = []
    for place, line in lines[flow_lines]:
        try:
            flow = reader(place, line)
            if flow is not None and not math.isfinite(flow.start_ns):
                raise ValueError
        except (ValueError, IndexError, OverflowError):
            raise FieldError(
                name, f"{place}: {shortened(line)} is no flow of a list as {title} has it"
            ) from None
        if flow is not None:
            flows.append(flow)
    return _table(name, title, flows)


def _form(lines: list[tuple[str, str]]) -> tuple[str, _Read, slice] | None:
    """Return the simulator's name, the reader of its lines, and the lines that it reads."""
    words = [line.split() for _, line in lines[:2]]
    if words[:1] and words[0][0] == "Nodes":
        return "htsim", _htsim, slice(None)
    if len(words) == 2 and len(words[0]) == 1 and _COUNT.fullmatch(words[0][0]) and len(words[1]) == 6:
        return "HPCC's ns-3", _hpcc, slice(1, 1 + int(words[0][0]))
    if words[:1] and len(words[0]) == 4 and all(_COUNT.fullmatch(word) for word in words[0][:3]):
        return "Homa's simulator", _homa, slice(None)
    return None


def _hpcc(place: str, line: str) -> _Flow:
    source, sink, _, _, size, start_s = line.split()
    return _Flow(place, float(start_s) * NS_PER_S, int(source), int(sink), int(size))


def _homa(place: str, line: str) -> _Flow:
    source, sink, size, start_s = line.split()
    return _Flow(place, float(start_s) * NS_PER_S, int(source), int(sink), int(size))


def _htsim(place: str, line: str) -> _Flow | None:
    if line.split()[0] in ("Nodes", "Connections"):
        return None
    match = _HTSIM.fullmatch(" ".join(line.split()))
    words = match[3].split() if match else []
    values = dict(zip(words[::2], words[1::2], strict=True))
    if match is None or not {"start", "size"} <= values.keys():
        raise FieldError(
            "workload.trace", f"{place}: {shortened(line)} has no start and size; triggers are not read"
        )
    return _Flow(
        place, float(values["start"]) / _PS_PER_NS, int(match[1]), int(match[2]), int(float(values["size"]))
    )


def _table(name: str, title: str, flows: list[_Flow]) -> FlowTable:
    earliest_ns = min((flow.start_ns for flow in flows), default=0.0)
    offset_ns = earliest_ns if earliest_ns >= NS_PER_S else 0.0
    small = sum(flow.size_bytes < MIN_FLOW_BYTES for flow in flows)
    said = [f"read as a list of {title}: {len(flows):,} flows, host 0 is h1"]
    if offset_ns:
        said.append(f"times count from {offset_ns / NS_PER_S:g} s on")
    if small:
        said.append(f"{small:,} flows of fewer than {MIN_FLOW_BYTES} bytes have {MIN_FLOW_BYTES}")

    def rows() -> Iterator[tuple[str, dict[str, object]]]:
        for flow in flows:
            yield (
                flow.place,
                {
                    "time_ns": round(flow.start_ns - offset_ns),
                    "src": f"h{flow.source + 1}",
                    "dst": f"h{flow.sink + 1}",
                    "bytes": max(flow.size_bytes, MIN_FLOW_BYTES),
                },
            )

    return FlowTable(name, COLUMNS, rows(), "; ".join(said))
