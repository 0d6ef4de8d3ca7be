# SPDX-License-Identifier: Apache-2.0
"""The queues of a switch port in Open vSwitch: their rows, their shares, and what a real port needs besides.

A real port needs credits that fit the rate of its link, and turns that fit its longest frame.

Open vSwitch gives the root class one MTU as its credit: 1,500 bytes are 1.2 us at 10 Gb/s, and round to 0 at 25 Gb/s.
HTB then stops after each packet, and a timer must start it again. A timer that is late by more than the credit costs
rate. Above FASTEST_BPS, Open vSwitch 3.1 also computes wrong rates: it makes 5.64 Gb/s of 40 Gb/s.

A flow queue may send one frame in its turn. With less than the longest frame, HTB's deficit would fall until it wraps.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from sluice.dataplane import flow_queues, rtnetlink
from sluice.policy.network.graph import Port
from sluice.policy.schemes.ports import port_burst_bytes
from sluice.runtime.command import run

QUEUES = 8
"""Every port has queues 0 (first) … 7 (last). A scheme uses some of them."""

MIN_RATE_BPS = 12_000
"""HTB serves a class below its min-rate before all priorities, so the min-rate must be tiny.

linux-htb raises it to one MTU a second. The switch's MTU holds policy.emulation.MAX_TIMER_DELAY_NS of traffic at the
link rate, so each queue gets at least 0.2 % of the link rate.
"""

SHARES_TIMEOUT_S = 2
"""A change of shares waits at most this long until ovs-vswitchd has applied it."""

CREDIT_NS = 100_000
"""Time for which a class may send after a late timer."""
SMALLEST_BYTES = 2 * 9_022
"""Two frames of the largest usual length, with a VLAN tag."""
FASTEST_BPS = 8 * (2**32 - 1)
"""Above it, a rate in bytes a second does not fit into the 32 bits of Open vSwitch 3.1."""
_LONGEST_CREDIT_S = 250
"""Of a class at its guaranteed rate. The kernel counts it in 32 bits of 64 ns."""
HEADERS_BYTES = 18
"""Of Ethernet, with one VLAN tag."""


def min_rates_bps(rate_bps: int, shares: Sequence[float] | None) -> list[int]:
    """Return the guaranteed rate of each queue of a port. Shares of None give every queue MIN_RATE_BPS.

    HTB first serves queues below their guaranteed rate, in order of priority. The rest goes to the highest priority
    that has packets, so that shares of None are strict priorities.
    """
    given = [*(shares or ()), *[0.0] * QUEUES][:QUEUES]
    return [max(MIN_RATE_BPS, int(share * rate_bps)) for share in given]


def queues(
    port: Port, shares: Sequence[float] | None = None, burst_bytes: int | None = None, row_name: str = ""
) -> list[str]:
    """Return the part of an OVSDB transaction that makes the QoS of a port: queues by priority, up to the link rate.

    `burst_bytes` is the credit of each queue; without it, that of an emulated link. A Queue row has no name, so its
    external_ids hold its interface and number (see `queue_rows`). `row_name`: of the Port row, if it is a bond's.
    """
    qos = f"@{port.switch}_{port.number}"
    rows = [f"{qos}_q{q}" for q in range(QUEUES)]
    burst_bits = 8 * (burst_bytes or port_burst_bytes(port.rate_bps))
    argv = ["--", "set", "Port", row_name or port.interface, f"qos={qos}"]
    argv += ["--", f"--id={qos}", "create", "QoS"]
    argv += ["type=linux-htb", f"other_config:max-rate={port.rate_bps}"]
    argv += [f"queues:{q}={row}" for q, row in enumerate(rows)]
    for q, (row, min_rate_bps) in enumerate(zip(rows, min_rates_bps(port.rate_bps, shares), strict=True)):
        argv += ["--", f"--id={row}", "create", "Queue", f"other_config:priority={q}"]
        argv += [f"other_config:min-rate={min_rate_bps}", f"other_config:max-rate={port.rate_bps}"]
        argv += [f"other_config:burst={burst_bits}"]
        argv += [f"external_ids:interface={port.interface}", f"external_ids:queue={q}"]
    return argv


class QueueRow(NamedTuple):
    """A Queue row of the database."""

    uuid: str
    interface: str
    queue: int
    min_rate_bps: int


def queue_rows(ovs: Callable[[list[str]], str]) -> list[QueueRow]:
    """Return the rows that `queues` has made. `ovs` runs a tool of Open vSwitch."""
    return [
        QueueRow(row["_uuid"], ids["interface"], int(ids["queue"]), int(row["other_config"]["min-rate"]))
        for row in table_rows(ovs, "Queue", "_uuid", "external_ids", "other_config")
        if "interface" in (ids := row["external_ids"])
    ]


def table_rows(ovs: Callable[[list[str]], str], table: str, *columns: str) -> list[dict[str, Any]]:
    """Return these columns of each row of a table of the database."""
    listing = ovs(["ovs-vsctl", "--format=json", f"--columns={','.join(columns)}", "list", table])
    document = json.loads(listing)
    return [
        {heading: _value(cell) for heading, cell in zip(document["headings"], row, strict=True)}
        for row in document["data"]
    ]


def _value(cell: Any) -> Any:
    """Return a cell of an OVSDB table (RFC 7047, 5.1): a map, an atom, a list, or None for an empty set."""
    match cell:
        case ["map", pairs]:
            return {key: _value(value) for key, value in pairs}
        case ["uuid", text]:
            return text
        case ["set", []]:
            return None
        case ["set", elements]:
            return [_value(element) for element in elements]
    return cell


def share_out(
    rows: Iterable[QueueRow], ports: Iterable[Port], shares: Sequence[float] | None
) -> list[str] | None:
    """Return the command of the one transaction that gives ports these shares, None if they have them.

    Open vSwitch changes the classes in place (RTM_NEWTCLASS), so no packet is lost and no queue stops.
    """
    desired = {port.interface: min_rates_bps(port.rate_bps, shares) for port in ports}
    argv = ["ovs-vsctl", f"--timeout={SHARES_TIMEOUT_S}"]
    for row in rows:
        if row.interface in desired and desired[row.interface][row.queue] != row.min_rate_bps:
            min_rate_bps = desired[row.interface][row.queue]
            argv += ["--", "set", "Queue", row.uuid, f"other_config:min-rate={min_rate_bps}"]
    return argv if len(argv) > 2 else None


def own_burst_bytes(rate_bps: int) -> int:
    """Return the credit of a port's classes: two long frames, or what the link carries in CREDIT_NS."""
    return max(SMALLEST_BYTES, rate_bps * CREDIT_NS // 8_000_000_000)


def fit(port: Port, shares: Sequence[float] | None) -> None:
    """Fit the classes of a port to its rate and its MTU. Waiting packets stay. Raises CommandFailed, OSError."""
    run(["tc", "-batch", "-"], stdin=classes(port, shares))
    frame_bytes = mtu(port.interface) + HEADERS_BYTES
    if frame_bytes > flow_queues.QUANTUM_BYTES:
        run(["tc", "-batch", "-"], stdin=flow_queues.turns(port.interface, frame_bytes))


def classes(port: Port, shares: Sequence[float] | None, verb: str = "change") -> str:
    """Return `tc -batch` input that gives the root class of a port, and the queues of a fast port, their rates.

    With the verb "replace", it makes or changes the classes of all queues, as Open vSwitch does.
    """
    rate, burst = f"{port.rate_bps}bit", f"{own_burst_bytes(port.rate_bps)}b"
    of_port = f"class {verb} dev {port.interface} parent"
    root = f"{of_port} 1: classid 1:fffe htb rate {rate} ceil {rate} burst {burst} cburst {burst}\n"
    if verb == "change" and port.rate_bps <= FASTEST_BPS:
        return root
    return root + "".join(
        f"{of_port} 1:fffe classid 1:{q + 1} htb prio {q} rate {least}bit ceil {rate}"
        f" burst {min(own_burst_bytes(port.rate_bps), least * _LONGEST_CREDIT_S // 8)}b cburst {burst}\n"
        for q, least in enumerate(min_rates_bps(port.rate_bps, shares))
    )


def mtu(interface: str) -> int:
    """Return the MTU of an interface of this network namespace in bytes. Raises OSError without the interface."""
    _, said = rtnetlink.interface(interface)
    return int.from_bytes(said[rtnetlink.MTU], sys.byteorder)
