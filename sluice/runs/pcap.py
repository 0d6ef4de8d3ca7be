# SPDX-License-Identifier: Apache-2.0
"""A pcap file of what a port has sent, made from the trace of a run.

It has headers alone: Ethernet, IPv4 and TCP, with times in nanoseconds. Host hN has the address 10.0.0.0 + N, the tag
is the DSCP, and sequence numbers count bytes from the SYN's 0. TCP's own checksum is 0.
"""

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from sluice.policy.units import HEADER_BYTES
from sluice.policy.workload.scenario import TcpVariant

_FILE_HEADER = struct.Struct("<IHHiIII")
_FIELDS = [
    *(("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4")),
    *(("to_mac", ">u2"), ("to", ">u4"), ("from_mac", ">u2"), ("from", ">u4"), ("type", ">u2")),
    *(("version", "u1"), ("tos", "u1"), ("total", ">u2"), ("id", ">u4"), ("ttl", "u1"), ("protocol", "u1")),
    *(("checksum", ">u2"), ("src", ">u4"), ("dst", ">u4"), ("src_port", ">u2"), ("dst_port", ">u2")),
    *(("seq", ">u4"), ("ack", ">u4"), ("offset", "u1"), ("flags", "u1"), ("window", ">u2"), ("rest", "V16")),
]
_SYN, _ACK, _ECE = 0x02, 0x10, 0x40


def write_pcap(bundle: Path, port: str, tcp: TcpVariant) -> Path:
    """Write the file of a port into the bundle, and return its path."""
    table = pq.read_table(bundle / "trace.parquet", filters=[("port", "=", port), ("event", "=", "sent")])
    sent = {name: table[name].to_numpy() for name in table.column_names}
    rows = np.zeros(len(table), _FIELDS)
    kind = sent["packet"].astype(str)
    is_data, is_syn = np.isin(kind, ("data", "message")), np.isin(kind, ("syn", "syn-ack"))
    returns = np.isin(kind, ("ack", "syn-ack", "rate-grant", "answer"))
    source, sink, size_bytes, client = _flows(bundle, sent["flow"].astype(str))
    rows["s"], rows["ns"] = np.divmod(np.rint(sent["at_s"] * 1e9).astype(np.int64), 10**9)
    rows["captured"] = HEADER_BYTES
    rows["length"] = HEADER_BYTES + np.where(is_data, sent["frame_bytes"] - tcp.header_bytes, 0)
    rows["from"], rows["to"] = np.where(returns, (sink, source), (source, sink))
    rows["from_mac"] = rows["to_mac"] = 0x0200
    rows["type"], rows["version"], rows["ttl"], rows["protocol"] = 0x0800, 0x45, 64, 6
    rows["tos"] = sent["tag"] * 4 + np.where(sent["ce"] & is_data, 3, 2 * sent["ect"])
    rows["total"] = rows["length"] - 14
    rows["src"], rows["dst"] = (10 << 24) + rows["from"], (10 << 24) + rows["to"]
    rows["checksum"] = _checksum(rows)
    rows["src_port"], rows["dst_port"] = np.where(returns, 5001, client), np.where(returns, client, 5001)
    begin, arrived = (sent[name].astype(np.int64) * tcp.payload_bytes for name in ("number", "next_expected"))
    rows["seq"] = np.where(is_syn, 0, 1 + is_data * begin) % 2**32
    rows["ack"] = (kind != "syn") * (1 + returns * np.minimum(arrived, size_bytes)) % 2**32
    rows["offset"], rows["window"] = 8 << 4, 0xFFFF  # ends with 12 bytes of options
    rows["flags"] = is_syn * _SYN + (kind != "syn") * _ACK + (sent["ce"] & returns) * _ECE
    out = bundle / f"{port.replace(':', '-')}.pcap"
    file_header = _FILE_HEADER.pack(
        0xA1B23C4D, 2, 4, 0, 0, HEADER_BYTES, 1
    )  # nanoseconds, version 2.4, Ethernet
    out.write_bytes(file_header + rows.tobytes())
    return out


def _flows(bundle: Path, ids: npt.NDArray[np.str_]) -> tuple[npt.NDArray[np.int64], ...]:
    """Return the numbers of source and sink, the size in bytes and the source's TCP port, for each packet's flow."""
    table = pq.read_table(bundle / "flows.parquet", columns=["id", "src", "dst", "bytes"])
    ends = zip(*table.to_pydict().values(), strict=True)
    flows = {flow: (int(src[1:]), int(dst[1:]), size_bytes) for flow, src, dst, size_bytes in ends}
    known, place = np.unique(ids, return_inverse=True)
    values = [(*flows[flow], 10_000 + int(flow.rpartition("/")[2]) % 50_000) for flow in known.tolist()]
    return tuple(np.asarray(values, np.int64).reshape(-1, 4)[place].T)


def _checksum(rows: npt.NDArray[np.void]) -> npt.NDArray[np.int64]:
    """Return the checksum of each IPv4 header."""
    header = rows.view(np.uint8).reshape(len(rows), rows.itemsize)[:, 30:50].astype(np.int64)
    total: npt.NDArray[np.int64] = (header[:, ::2] * 256 + header[:, 1::2]).sum(axis=1)
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
