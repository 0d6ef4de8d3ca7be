# SPDX-License-Identifier: Apache-2.0
"""The controller as a process with its own store, and peers that answer in a thread."""

import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sluice.controller.openflow.frames import Frame, MessageType, StatsType
from sluice.controller.tables import Table
from sluice.policy.network.graph import Topology
from sluice.policy.schema.desired import Policy
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from sluice.store import desired, observed, schema
from sluice.store.engine import open_store
from tests.fakes.openflow import BUNDLE_ADD
from tests.fakes.peer import Peer, leaves_requests_alone
from tests.kit.networks import single

Answer = Callable[[Frame], bytes | None]


class Process:
    """A running controller."""

    def __init__(
        self,
        folder: Path,
        start: Sequence[str] = ("-m", "sluice", "controller"),
        arguments: Iterable[str] = (),
    ) -> None:
        """Its store has a network of one switch."""
        self._log, store_url = folder / "log", f"sqlite:///{folder}/store.db"
        self.engine = open_store(store_url)
        desired.put_topology(self.engine, single())
        self.put_policy({"scheme": "pias"})
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        argv = [sys.executable, *start, "--store", store_url]
        argv += ["--listen", f"127.0.0.1:{self.port}", *arguments]
        self.process = spawn(argv, log_file=self._log)
        wait_until(lambda: "listening" in self.log, "the controller listens")

    @property
    def log(self) -> str:
        return self._log.read_text()

    @property
    def threads(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def put_topology(self, topology: Topology) -> None:
        """Store a network, and wait until the controller knows its switches."""
        desired.put_topology(self.engine, topology)
        dpids = {switch.dpid for switch in topology.switches}
        wait_until(
            lambda: dpids <= {row["dpid"] for row in observed.all_switches(self.engine)}, "it is known"
        )

    def put_policy(self, document: Mapping[str, Any]) -> int:
        return desired.put_policy(self.engine, Policy.from_document(document), "test")

    def events(self) -> list[str]:
        return [event["kind"] for event in observed.events_after(self.engine, 0)]

    def event(self, kind: str) -> Mapping[str, Any]:
        """Return the document of the only event of a kind."""
        (event,) = observed.events_of(self.engine, kind, 0)
        found: Mapping[str, Any] = event["document"]
        return found

    def begin_again(self) -> None:
        """Wait until all switches are disconnected, and forget what has happened."""

        def connected() -> int:
            assert self.process.poll() is None, "the controller has ended"
            kinds = self.events()
            return kinds.count("switch-connected") - kinds.count("switch-disconnected")

        wait_until(lambda: not connected(), "all switches are disconnected")
        with self.engine.begin() as connection:
            connection.execute(schema.events.delete())

    def switch(self, dpid: int) -> Mapping[str, Any]:
        """Return the row of a switch."""
        return next(row for row in observed.all_switches(self.engine) if row["dpid"] == dpid)

    def applied(self) -> bool:
        """Whether all switches implement the newest policy."""
        newest = desired.current_policy(self.engine)
        return newest is not None and newest.applied_at is not None

    def close(self) -> None:
        if self.process.poll() is None:
            stop(self.process)
        print(self.log)  # pytest shows it if the test fails
        self.engine.dispose()


@contextmanager
def controller_process(
    folder: Path, start: Sequence[str] = ("-m", "sluice", "controller"), arguments: Iterable[str] = ()
) -> Iterator[Process]:
    """Run a controller."""
    process = Process(folder, start, arguments)
    try:
        yield process
    finally:
        process.close()


def serves(controller: Process, wrap: Callable[[socket.socket], socket.socket] = lambda plain: plain) -> None:
    """Bring a new switch to a new policy. `wrap` puts TLS around its connection."""
    controller.put_policy({"scheme": "pias"})
    peer = Peer(controller.port, 1, wrap=wrap)
    peer.run(controller.applied)
    peer.close()


class Live:
    """A peer that answers in its own thread.

    If it `returns`, it connects again after the controller closes the connection, like a switch.
    """

    def __init__(
        self, port: int, dpid: int, answer: Answer = leaves_requests_alone, returns: bool = False
    ) -> None:
        self._port, self._dpid, self._answer, self._returns = port, dpid, answer, returns
        self._stopped = threading.Event()
        self.peers = [Peer(port, dpid, answer)]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            peer = self.peers[-1]
            peer.run(lambda: self._stopped.is_set() or self.peers[-1].closed, timeout_s=300)
            if not self._returns:
                return
            if not self._stopped.wait(0.2):
                with suppress(ConnectionRefusedError):  # the controller has ended
                    self.peers.append(Peer(self._port, self._dpid, self._answer))

    @property
    def received(self) -> list[Frame]:
        return [frame for peer in self.peers for frame in peer.received]

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(300)
        self.peers[-1].close()


class Starter:
    """Starts peers of a controller that end with the test."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._live: list[Live] = []
        self._driven: list[Peer] = []

    def live(self, dpid: int, answer: Answer = leaves_requests_alone, returns: bool = False) -> Live:
        self._live.append(Live(self._port, dpid, answer, returns))
        return self._live[-1]

    def driven(self, dpid: int) -> Peer:
        """Start a peer that answers only while the test runs it."""
        self._driven.append(Peer(self._port, dpid))
        return self._driven[-1]

    def stop(self) -> None:
        for live in self._live:
            live.stop()
        for driven in self._driven:
            driven.close()


# ── What a peer has received ───────────────────────────────────────────────────────────────────


def is_change(frame: Frame) -> bool:
    """Whether the message puts a change into a bundle."""
    kind = int.from_bytes(frame.data[12:16], "big")
    return frame.kind == MessageType.EXPERIMENTER and kind == BUNDLE_ADD


def changes(frames: Iterable[Frame]) -> list[Frame]:
    return [frame for frame in frames if is_change(frame)]


def is_flow_request(frame: Frame) -> bool:
    """Whether the message requests flow statistics."""
    stats = int.from_bytes(frame.data[8:10], "big")
    return frame.kind == MessageType.MULTIPART_REQUEST and stats == StatsType.FLOW


def polls_completed(frame: Frame) -> bool:
    """Whether the message requests the counters of completed flows."""
    return is_flow_request(frame) and frame.data[16] == Table.ENDS


def polls(peer: Live) -> int:
    """Return how often the controller has requested the counters of completed flows from a peer."""
    return sum(map(polls_completed, peer.received))
