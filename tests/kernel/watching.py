# SPDX-License-Identifier: Apache-2.0
"""What a watch reports, and the end of all connections."""

from __future__ import annotations

import socket
import struct

from sluice.dataplane.watch import Connection, Watch
from sluice.runtime.wait import wait_until
from tests.kernel.lab import Namespace

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


class Ends:
    """Collects the connections that a watch reports as ended."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.found: list[Connection] = []

    def wait(self, count: int) -> list[Connection]:
        def enough() -> bool:
            self.found += self._watch.ended()
            return len(self.found) >= count

        wait_until(enough, f"{count} connections have ended")
        return self.found


def ended(watch: Watch, count: int = 1) -> list[Connection]:
    found = Ends(watch).wait(count)
    assert len(found) == count
    return found


def sockets_closed(ns: Namespace) -> None:
    """Wait until no connection of the namespace is left, so that the kernel has reported all."""
    wait_until(lambda: not ns.run("ss", "-Htn").strip(), "all connections have ended")


def close_in_order(client: socket.socket, server: socket.socket) -> None:
    client.close()
    assert server.recv(1) == b""
    server.close()
