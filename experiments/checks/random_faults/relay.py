# SPDX-License-Identifier: Apache-2.0
"""Stands between switches and controllers: it hands on every byte, notes what they say, and can cut them off.

A cut connection is silent, as in a network that loses all packets: nothing is handed on, and nothing ends. What was
under way arrives late, after the cut. A refused one ends at once.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from experiments.checks.random_faults.wire import Closed, Conversation, Event
from sluice.controller.openflow import Framer

TURN_S = 0.02
"""How soon a cut has an effect."""
CHUNK_BYTES = 1 << 18
MOST_WAITING_BYTES = 1 << 20
"""A side that does not take its bytes stops the other one, as a full window does."""
Cut = tuple[str, int | None]
"""A controller, and the datapath id of one switch; None: all of them."""


class _Link:
    """A connection of a switch, and the one to the controller that belongs to it."""

    def __init__(self, name: str, switch: socket.socket, controller: socket.socket) -> None:
        self.name, self.conversation = name, Conversation(name)
        self.peer = {switch: controller, controller: switch}
        self.framers = {switch: Framer(), controller: Framer()}
        self.waiting = {switch: bytearray(), controller: bytearray()}
        """Bytes for each side."""
        self.switch, self.controller = switch, controller

    def is_among(self, cuts: set[Cut]) -> bool:
        return (self.name, None) in cuts or (self.name, self.conversation.switch) in cuts

    def wants(self, side: socket.socket) -> int:
        full = len(self.waiting[self.peer[side]]) > MOST_WAITING_BYTES
        return (0 if full else selectors.EVENT_READ) | (selectors.EVENT_WRITE if self.waiting[side] else 0)


class Relay:
    """A context manager. `paths`: controller → the socket for switches, and the controller's own."""

    def __init__(self, paths: Mapping[str, tuple[Path, Path]]) -> None:
        self.events: list[Event] = []
        self._to = {name: to for name, (_, to) in paths.items()}
        self._doors = {self._bind(at): name for name, (at, _) in paths.items()}
        self._links: list[_Link] = []
        self._silent: set[Cut] = set()
        self._refused: set[Cut] = set()
        self._selector = selectors.DefaultSelector()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="relay", daemon=True)

    @staticmethod
    def _bind(path: Path) -> socket.socket:
        door = socket.socket(socket.AF_UNIX)
        door.bind(str(path))
        door.listen(64)
        door.setblocking(False)
        return door

    def __enter__(self) -> Relay:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for link in list(self._links):
            self._end(link)
        for door in self._doors:
            door.close()
        self._selector.close()

    def silence(self, controller: str, switch: int | None = None) -> None:
        self._silent = self._silent | {(controller, switch)}

    def refuse(self, controller: str, switch: int) -> None:
        self._refused = self._refused | {(controller, switch)}

    def heal(self, controller: str, switch: int | None = None) -> None:
        self._silent = self._silent - {(controller, switch)}
        self._refused = self._refused - {(controller, switch)}

    # ── The thread ──────────────────────────────────────────────────────────────────────────────

    def _loop(self) -> None:
        while not self._stopping.is_set():
            for door, name in self._doors.items():
                self._watch(door, 0 if (name, None) in self._silent else selectors.EVENT_READ)
            for link in list(self._links):
                if link.is_among(self._refused):
                    self._end(link)
                else:
                    self._watch_link(link)
            for key, mask in self._selector.select(TURN_S):
                self._serve(key.fileobj, mask)

    def _watch_link(self, link: _Link) -> None:
        silent = link.is_among(self._silent)
        for side in link.peer:
            self._watch(side, 0 if silent else link.wants(side), link)

    def _watch(self, sock: socket.socket, mask: int, link: _Link | None = None) -> None:
        known = self._selector.get_map().get(sock)
        if known is None and mask:
            self._selector.register(sock, mask, link)
        elif known is not None and not mask:
            self._selector.unregister(sock)
        elif known is not None and known.events != mask:
            self._selector.modify(sock, mask, link)

    def _serve(self, sock: object, mask: int) -> None:
        assert isinstance(sock, socket.socket)
        if sock in self._doors:
            self._admit(sock, self._doors[sock])
            return
        link = next((link for link in self._links if sock in link.peer), None)
        if link is None or link.is_among(self._silent):  # its end, or its cut, came with this turn
            return
        try:
            if mask & selectors.EVENT_WRITE:
                del link.waiting[sock][: sock.send(link.waiting[sock])]
            if mask & selectors.EVENT_READ:
                self._hand_on(link, sock)
        except BlockingIOError:
            return
        except OSError:
            self._end(link)

    def _admit(self, door: socket.socket, name: str) -> None:
        with contextlib.suppress(BlockingIOError):
            switch, _ = door.accept()
            controller = socket.socket(socket.AF_UNIX)
            try:
                controller.connect(str(self._to[name]))
            except OSError:  # no controller listens
                controller.close()
                switch.close()
                return
            switch.setblocking(False)
            controller.setblocking(False)
            self._links.append(_Link(name, switch, controller))

    def _hand_on(self, link: _Link, side: socket.socket) -> None:
        data = side.recv(CHUNK_BYTES)
        if not data:
            self._end(link)
            return
        self._note(link, side, data)
        waiting = link.waiting[link.peer[side]]
        sent = 0 if waiting else self._send(link.peer[side], data)
        waiting += data[sent:]

    @staticmethod
    def _send(sock: socket.socket, data: bytes) -> int:
        try:
            return sock.send(data)
        except BlockingIOError:
            return 0

    def _note(self, link: _Link, side: socket.socket, data: bytes) -> None:
        now = time.time()
        for frame in link.framers[side].feed(data):
            if side is link.controller:
                link.conversation.ordered(frame, now)
            else:
                self.events.extend(link.conversation.answered(frame, now))

    def _end(self, link: _Link) -> None:
        self._links.remove(link)
        if link.conversation.switch is not None:
            self.events.append(Closed(time.time(), link.name, link.conversation.switch))
        for side in link.peer:
            self._watch(side, 0)
            side.close()
