# SPDX-License-Identifier: Apache-2.0
"""Two hosts on one cable, without a switch. Their network namespaces end with the process that made them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sluice.runtime import command
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until

HOSTS = ("h1", "h2")
ADDRESSES = {"h1": "10.9.0.1", "h2": "10.9.0.2"}


class Cable:
    """The hosts h1 (10.9.0.1 on h1-eth0) and h2 (10.9.0.2 on h2-eth0).

    `rate`, for example "100mbit", shapes both directions.
    """

    def __init__(self, rate: str | None = None) -> None:
        self._holders = {name: spawn(["unshare", "--net", "sleep", "infinity"]) for name in HOSTS}
        self._children: list[subprocess.Popen[bytes]] = []
        try:
            self._lay(rate)
        except BaseException:
            self.close()
            raise

    def exec(self, host: str, argv: Sequence[str], timeout_s: float = 30.0) -> str:
        return command.run([*self._enter(host), *argv], timeout_s=timeout_s)

    def spawn(self, host: str, argv: Sequence[str], log_file: Path | None = None) -> subprocess.Popen[bytes]:
        child = spawn([*self._enter(host), *argv], log_file=log_file)
        self._children.append(child)
        return child

    def close(self) -> None:
        for process in [*self._children, *self._holders.values()]:
            stop(process)

    def __enter__(self) -> Cable:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _enter(self, host: str) -> list[str]:
        return ["nsenter", f"--net=/proc/{self._holders[host].pid}/ns/net"]

    def _lay(self, rate: str | None) -> None:
        for process in self._holders.values():
            wait_until(partial(_is_elsewhere, process.pid), "the host has its network namespace")
        peer = str(self._holders["h2"].pid)
        self.exec("h1", f"ip link add h1-eth0 type veth peer name h2-eth0 netns {peer}".split())
        for name in HOSTS:
            for line in _host_commands(f"{name}-eth0", ADDRESSES[name], rate):
                self.exec(name, line.split())


def _is_elsewhere(pid: int) -> bool:
    """Whether a process has left this process's network namespace."""
    return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


def _host_commands(interface: str, address: str, rate: str | None) -> list[str]:
    commands = [
        "sysctl -q -w net.ipv4.tcp_ecn=1 net.ipv4.tcp_no_metrics_save=1",
        f"ethtool -K {interface} tx off tso off gso off gro off",
        f"ip link set {interface} gso_max_segs 1",
        f"ip address add {address}/24 dev {interface}",
        "ip link set lo up",
        f"ip link set {interface} up",
    ]
    if rate:
        commands += [
            f"tc qdisc add dev {interface} root handle 1: htb default 1",
            f"tc class add dev {interface} parent 1: classid 1:1 htb rate {rate}",
        ]
    return commands
