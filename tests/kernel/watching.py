# SPDX-License-Identifier: Apache-2.0
"""What a watch reports, and the end of all connections."""

from __future__ import annotations

import itertools
import os
import re
import socket
import struct
from pathlib import Path

from sluice.dataplane.sockopt import cgroup_root
from sluice.dataplane.watch import Connection, Watch
from sluice.policy.schemes.ports import port_burst_bytes
from sluice.runtime.command import run
from sluice.runtime.wait import wait_until
from tests.kernel.lab import Namespace, collected, tcp_info

NEVER_NS = 3600 * 10**9
"""An idle gap that no test waits for."""
RESET_ON_CLOSE = struct.pack("@ii", 1, 0)


class WatchOf(Watch):
    """A watch of a namespace, which tests ask from outside it."""

    def __init__(self, ns: Namespace, own_port: int = 0) -> None:
        self._ns = ns
        with ns:
            super().__init__(own_port)

    def live(self) -> list[Connection]:
        with self._ns:
            return super().live()


def ended(watch: Watch, count: int = 1) -> list[Connection]:
    found = collected(watch.ended, count, f"{count} connections have ended")
    assert len(found) == count
    return found


def sockets_closed(ns: Namespace) -> None:
    """Wait until no connection of the namespace is left, so that the kernel has reported all."""
    wait_until(lambda: not ns.run("ss", "-Htn").strip(), "all connections have ended")


def wait_acknowledged(sock: socket.socket) -> None:
    """Wait until no data is in flight (tcpi_unacked of TCP_INFO)."""
    while tcp_info(sock, 24):
        pass


def close_in_order(client: socket.socket, server: socket.socket) -> None:
    client.close()
    assert server.recv(1) == b""
    server.close()


QUEUES = 8


def make_queues(ns: Namespace, ifname: str, rate_bps: int) -> None:
    rate, credit = f"{rate_bps}bit", port_burst_bytes(rate_bps)
    tree, burst = f"class add dev {ifname} parent", f"burst {credit} cburst {credit}"
    lines = [f"qdisc add dev {ifname} root handle 1: htb default 1"]
    lines.append(f"{tree} 1: classid 1:fffe htb rate {rate} {burst}")
    for q in range(QUEUES):
        lines.append(f"{tree} 1:fffe classid 1:{q + 1} htb rate 12kbit ceil {rate} prio {q} {burst}")
        lines.append(f"qdisc add dev {ifname} parent 1:{q + 1} pfifo limit 10000")
    with ns:
        run(["tc", "-batch", "-"], stdin="\n".join(lines))


def packets_by_queue(ns: Namespace, ifname: str) -> list[int]:
    """Return the packets that each class has sent."""
    text = ns.run("tc", "-s", "class", "show", "dev", ifname)
    sent = {
        int(c, 16): int(n)
        for c, n in re.findall(r"class htb 1:([0-9a-f]+) .*?Sent \d+ bytes (\d+) pkt", text, re.S)
    }
    return [sent[q + 1] for q in range(QUEUES)]


def sent_and_backlog_bytes(ns: Namespace, ifname: str) -> tuple[int, int]:
    """Return the sent bytes and the waiting bytes of the whole port."""
    text = ns.run("tc", "-s", "qdisc", "show", "dev", ifname)
    root = text[text.index("qdisc htb 1:") :]
    sent = re.search(r"Sent (\d+) bytes", root)
    backlog = re.search(r"backlog (\d+)([KM]?)b", root)
    assert sent is not None
    assert backlog is not None
    return int(sent[1]), int(backlog[1]) * {"": 1, "K": 1024, "M": 1024**2}[backlog[2]]


_numbers = itertools.count()


class Cgroup:
    """While the group is open, this process and its new children are in it. A socket keeps its group."""

    def __init__(self, name: str = "") -> None:
        root = cgroup_root()
        own = next(
            line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::")
        )
        self._before = root / own.removeprefix("0::").lstrip("/")
        self.folder = root / (name or f"sluice-test-{os.getpid()}-{next(_numbers)}")
        self.folder.mkdir()

    def __enter__(self) -> Cgroup:
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))
        return self

    def __exit__(self, *_: object) -> None:
        (self._before / "cgroup.procs").write_text(str(os.getpid()))
        wait_until(self._removed, "the children have left the control group")

    def _removed(self) -> bool:
        try:
            self.folder.rmdir()
        except OSError:
            return False
        return True
