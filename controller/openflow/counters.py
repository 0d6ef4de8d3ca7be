# SPDX-License-Identifier: Apache-2.0
"""Statistics replies into counters: numpy columns for ports and queues, one object for each flow.

All counters are cumulative. Bytes are of frames, headers included.

Each reply is decoded in one pass. Entries of equal length are read as rows of one array. So a
poll of ports costs a few array operations, however many rules it reports.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sluice.controller.openflow import frames
from sluice.controller.openflow.frames import ProtocolViolation, u16
from sluice.controller.tables import cookie_port
from sluice.policy import tags
from sluice.policy.network.graph import INGRESS_GROUPS

Ints: TypeAlias = npt.NDArray[np.int64]
_Unsigned: TypeAlias = npt.NDArray[np.uint64]


class CounterReply(NamedTuple):
    """The counters of one reply by port and tag, one row for each requested port."""

    values: Ints
    """Shape (P, kinds, codes): packets and bytes, or packets by group of ingress ports."""
    reported: npt.NDArray[np.bool_]
    """Whether the reply has an entry of the port, shape (P,)."""
    entries: int
    """Entries of the reply, those of other ports included."""


@dataclass(frozen=True)
class QueueCounts:
    """Transmitted bytes and packets of one port, by queue."""

    size_bytes: tuple[int, ...]
    packets: tuple[int, ...]


@dataclass
class FlowCounts:
    """Counters by tag of one flow of a watched port."""

    port: int
    name: str
    """ "TCP 10.0.0.2:40000 > 10.0.0.1:80"."""
    age_s: float = 0.0
    """Age of the oldest rule that counts the flow."""
    by_tag: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Tag → (packets, bytes)."""

    @property
    def size_bytes(self) -> int:
        return sum(size_bytes for _, size_bytes in self.by_tag.values())

    def as_array(self) -> Ints:
        """Return packets and bytes by tag, shape (2, 62)."""
        counts = np.zeros((2, tags.TAG_COUNT), np.int64)
        for tag, packets_and_bytes in self.by_tag.items():
            counts[:, tag] = packets_and_bytes
        return counts


# ── Flow statistics ─────────────────────────────────────────────────────────────────────────────


_MAX_RUNS = 64
"""Runs of entries of equal length that are read as rows. A table of Sluice has two or three."""


def flow_columns(body: bytes) -> tuple[_Unsigned, _Unsigned, _Unsigned]:
    """Return cookies, packet counts and byte counts of a flow statistics reply, as columns of equal length."""
    runs = [np.empty(0, _row_of(frames.FLOW_FIXED_BYTES))]
    at = 0
    while at < len(body) and len(runs) < _MAX_RUNS:
        next(frames.flow_entry_offsets(body, at))  # checks the first entry
        size = u16(body, at)
        rows = np.frombuffer(body, _row_of(size), count=(len(body) - at) // size, offset=at)
        other = rows["length"] != size  # a run ends before the first entry of another length
        runs.append(rows[: other.argmax()] if other.any() else rows)
        at += len(runs[-1]) * size
    if at < len(body):
        heads = [
            body[start : start + frames.FLOW_FIXED_BYTES] for start in frames.flow_entry_offsets(body, at)
        ]
        runs.append(np.frombuffer(b"".join(heads), _row_of(frames.FLOW_FIXED_BYTES)))
    cookies, packets, size_bytes = (
        np.concatenate([rows[name] for rows in runs]).astype(np.uint64)
        for name in ("cookie", "packets", "bytes")
    )
    return cookies, packets, size_bytes


def _row_of(size_bytes: int) -> np.dtype[np.void]:
    """Return the layout of a flow statistics entry of that size (1.3.5, section 7.3.5.2)."""
    return np.dtype(
        {
            "names": ["length", "cookie", "packets", "bytes"],
            "formats": [">u2", ">u8", ">u8", ">u8"],
            "offsets": [0, 24, 32, 40],
            "itemsize": size_bytes,
        }
    )


# ── By port and tag ────────────────────────────────────────────────────────────────────────────


def completed_counts(body: bytes, ports: Ints) -> CounterReply:
    """Return completed flows by group of ingress ports and bucket: values of shape (P, INGRESS_GROUPS, 40).

    `ports`: sorted port numbers.
    """
    cookies, packets, _ = flow_columns(body)
    codes = range(tags.ATTAINED_FIRST, tags.ATTAINED_LAST + 1)
    group = (cookies >> np.uint64(8) & np.uint64(0xFF)).astype(np.int64)
    row, code = _rows_and_codes(cookies, ports, codes)
    wanted = (row >= 0) & (code >= 0) & (group < INGRESS_GROUPS)
    row = row[wanted]
    cell = (row * INGRESS_GROUPS + group[wanted]) * len(codes) + code[wanted]
    counts = np.zeros(len(ports) * INGRESS_GROUPS * len(codes), np.int64)
    np.add.at(counts, cell, packets[wanted].astype(np.int64))
    values = counts.reshape(len(ports), INGRESS_GROUPS, len(codes))
    return CounterReply(values, _reported(row, ports), len(cookies))


def carried_counts(body: bytes, ports: Ints) -> CounterReply:
    """Return packets and bytes by tag, at the egress or the ingress: values of shape (P, 2, 62).

    IPv4 and IPv6 are added. Other ports and codes are left out. `ports`: sorted port numbers.
    """
    cookies, packets, size_bytes = flow_columns(body)
    codes = range(tags.UNTAGGED, tags.TAG_COUNT)
    row, code = _rows_and_codes(cookies, ports, codes)
    wanted = (row >= 0) & (code >= 0)
    row = row[wanted]
    cell = row * len(codes) + code[wanted]
    counts = np.zeros((2, len(ports) * len(codes)), np.int64)
    np.add.at(counts[0], cell, packets[wanted].astype(np.int64))
    np.add.at(counts[1], cell, size_bytes[wanted].astype(np.int64))
    values = counts.reshape(2, len(ports), len(codes)).swapaxes(0, 1)
    return CounterReply(values, _reported(row, ports), len(cookies))


def _rows_and_codes(cookies: _Unsigned, ports: Ints, codes: range) -> tuple[Ints, Ints]:
    """Return the row in `ports` (sorted) and the index in `codes` of each cookie; -1 for others."""
    number = (cookies >> np.uint64(16) & np.uint64(0xFFFF)).astype(np.int64)
    code = (cookies & np.uint64(0xFF)).astype(np.int64)
    row_of = np.full(int(ports[-1]) + 2 if len(ports) else 1, -1, np.int64)
    row_of[ports] = np.arange(len(ports))
    row = np.asarray(row_of[np.minimum(number, len(row_of) - 1)])
    is_requested = (code >= codes.start) & (code < codes.stop)
    return row, np.where(is_requested, code - codes.start, -1)


def _reported(rows: Ints, ports: Ints) -> npt.NDArray[np.bool_]:
    reported = np.zeros(len(ports), bool)
    reported[rows] = True
    return reported


# ── Flows of watched ports ─────────────────────────────────────────────────────────────────────

_INT64_MASK = (1 << 63) - 1
_IP_DSCP, _IP_PROTO = 8, 10
"""Numbers of OpenFlow's match fields (1.3.5, table 12)."""
_ADDRESS_FIELDS = ((11, 12), (26, 27))
"""Source and destination, of IPv4 and of IPv6."""
_PORT_FIELDS = {6: (13, 14), 17: (15, 16)}
"""Source and destination, of TCP and of UDP."""
_PROTOCOL_NAMES = {6: "TCP", 17: "UDP"}
_CACHED_MATCHES = 1 << 15


def learned_flows(body: bytes) -> tuple[list[FlowCounts], int]:
    """Return the flows that a switch has learned, each with the counters of all its tags, and the number of entries.

    A flow has an entry for each tag.
    """
    flows: dict[tuple[int, str], FlowCounts] = {}
    entries = 0
    for entry in frames.flow_entries(body):
        entries += 1
        flow_and_tag = _flow_and_tag(entry.match)
        if flow_and_tag is None:
            continue
        name, tag = flow_and_tag
        port = cookie_port(entry.cookie)
        flow = flows.setdefault((port, name), FlowCounts(port, name))
        flow.age_s = max(flow.age_s, entry.duration_s)
        flow.by_tag[tag] = (entry.packets & _INT64_MASK, entry.size_bytes & _INT64_MASK)
    return list(flows.values()), entries


@lru_cache(_CACHED_MATCHES)
def _flow_and_tag(match: bytes) -> tuple[str, int] | None:
    """Return the name of the flow that a learned rule counts, and the tag.

    None if the rule counts no single flow. Later fragments of datagrams carry no port numbers, so the
    fragments of all sockets match one rule.
    """
    fields = frames.match_fields(match)
    tag = fields.get(_IP_DSCP, b"\0")[0]
    protocol = fields.get(_IP_PROTO, b"\0")[0]
    addresses = next(
        ((fields[s], fields[d]) for s, d in _ADDRESS_FIELDS if s in fields and d in fields), None
    )
    ports = [fields.get(number, b"") for number in _PORT_FIELDS.get(protocol, ())]
    if addresses is None or tag >= tags.TAG_COUNT or not any(map(any, ports)):
        return None
    source, destination = map(_endpoint, addresses, ports)
    return f"{_PROTOCOL_NAMES[protocol]} {source} > {destination}", tag


def _endpoint(address: bytes, port: bytes) -> str:
    host, number = ip_address(address), int.from_bytes(port, "big")
    return f"[{host}]:{number}" if host.version == 6 else f"{host}:{number}"


# ── Queues ─────────────────────────────────────────────────────────────────────────────────────

_QUEUE = np.dtype(
    [
        ("port", ">u4"),
        ("queue", ">u4"),
        ("bytes", ">u8"),
        ("packets", ">u8"),
        ("errors", ">u8"),
        ("duration_s", ">u4"),
        ("duration_ns", ">u4"),
    ]
)
"""An entry of a queue statistics reply (1.3.5, section 7.3.5.8)."""


def queue_counts(body: bytes) -> dict[int, QueueCounts]:
    """Return port number → counters, the queues in order."""
    if len(body) % _QUEUE.itemsize:
        raise ProtocolViolation(
            f"a queue statistics reply has {len(body)} bytes; an entry has {_QUEUE.itemsize}"
        )
    rows = np.frombuffer(body, _QUEUE)
    rows = rows[np.lexsort((rows["queue"], rows["port"]))]
    ports, starts = np.unique(rows["port"], return_index=True)
    size_bytes, packets = rows["bytes"].tolist(), rows["packets"].tolist()
    ends = np.append(starts, len(rows))[1:].tolist()
    return {
        port: QueueCounts(tuple(size_bytes[start:end]), tuple(packets[start:end]))
        for port, start, end in zip(ports.tolist(), starts.tolist(), ends, strict=True)
    }
