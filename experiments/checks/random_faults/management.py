# SPDX-License-Identifier: Apache-2.0
"""The management network of controllers that share the switches: PostgreSQL, and one machine for each controller.

All of them have one network namespace. Each controller reaches the server under an address of its own, over TCP, so
that it can be cut from the store alone. Each has a boot id of its own: the others cannot see whether its process has
ended, as on other machines.
"""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

from sluice.runtime.command import run
from sluice.runtime.postgres import PORT, PostgresServer
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until

_READY = "ready"
_PREPARE = f"ip link set lo up && tc qdisc add dev lo clsact && echo {_READY} && exec sleep infinity"
_BOOT_ID = "/proc/sys/kernel/random/boot_id"
_ON_OWN_MACHINE = f'mount --bind "$0" {_BOOT_ID} && exec "$@"'
_SOURCE, _DESTINATION = 12, 16
"""Offsets in the IPv4 header."""
_NETWORK_HEADER = 0xFFF00000
"""Classic BPF's SKF_NET_OFF: loads from the network header."""
_LOAD, _JUMP_IF_EQUAL, _RETURN = 32, 21, 6
"""Opcodes of classic BPF."""
_DROP, _NEXT_FILTER = 2, 0xFFFFFFFF


class Site:
    """Made by `start`. `stop` removes all of it."""

    def __init__(self, folder: Path, holder: subprocess.Popen[bytes]) -> None:
        self._folder, self._holder = folder, holder
        self._enter = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        self._server: PostgresServer | None = None
        self._database = ""

    @classmethod
    def start(cls, folder: Path) -> Site:
        log_file = folder / "site.log"
        holder = spawn(["unshare", "--net", "sh", "-c", _PREPARE], log_file=log_file)
        site = cls(folder, holder)
        try:
            wait_until(lambda: _READY in log_file.read_text(), "the management network is ready")
            site._server = PostgresServer.start(site._enter, "*")
            site._database = site._server.new_database().partition("?")[0].rpartition("/")[2]
        except BaseException:
            site.stop()
            raise
        return site

    @property
    def store_url(self) -> str:
        """The store for processes that no fault cuts off, over a Unix socket."""
        assert self._server is not None
        return self._server.url(self._database)

    def store_url_of(self, number: int) -> str:
        return f"postgresql+psycopg://sluice@{_address(number)}:{PORT}/{self._database}"

    def on_machine(self, number: int, argv: Sequence[str]) -> list[str]:
        """Return the command that runs another on the machine of a controller."""
        boot_id = self._folder / f"boot-{number}"
        if not boot_id.exists():
            boot_id.write_text(f"{uuid.uuid4()}\n")
        return [*self._enter, "unshare", "--mount", "sh", "-c", _ON_OWN_MACHINE, str(boot_id), *argv]

    def cut(self, number: int) -> None:
        """Lose all packets between a controller and the store."""
        program = _dropping(int(_address(number)))
        self._filter("add", number, "bpf", "da", "bytecode", program)

    def heal(self, number: int) -> None:
        self._filter("del", number)

    def _filter(self, action: str, number: int, *what: str) -> None:
        # On ingress: a packet that is lost at egress of the loopback device comes back to its sender as an error.
        place = ["dev", "lo", "ingress", "protocol", "ip", "pref", str(number)]
        run([*self._enter, "tc", "filter", action, *place, *what])

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        stop(self._holder)


def _address(number: int) -> IPv4Address:
    return IPv4Address(f"127.2.0.{number}")


def _dropping(address: int) -> str:
    """Return a program that drops the packets from and to an address, in tc's notation."""
    lines = [
        (_LOAD, 0, 0, _NETWORK_HEADER + _DESTINATION),
        (_JUMP_IF_EQUAL, 2, 0, address),
        (_LOAD, 0, 0, _NETWORK_HEADER + _SOURCE),
        (_JUMP_IF_EQUAL, 0, 1, address),
        (_RETURN, 0, 0, _DROP),
        (_RETURN, 0, 0, _NEXT_FILTER),
    ]
    return ",".join([str(len(lines)), *(" ".join(map(str, line)) for line in lines)])
