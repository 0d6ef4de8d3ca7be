# SPDX-License-Identifier: Apache-2.0
"""A switch that keeps its rules and the roles of its controllers, as OpenFlow 1.3.5, section 6.3.6, says."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable

from sluice.controller.openflow import Frame, MessageType, StatsType, message
from tests.fakes.openflow import BUNDLE_ADD, BUNDLE_CONTROL, entry_of_flow_mod, entry_of_group_mod, inner
from tests.fakes.peer import multipart_reply

EQUAL, MASTER, SLAVE = 1, 2, 3
DELETES = (3, 4)
_ROLE_REQUEST_FAILED, _STALE, _BAD_REQUEST, _IS_SLAVE = 11, 0, 1, 10
_ALL_TABLES, _COMMIT, _PART_BYTES = 0xFF, 4, 60_000


class RememberingSwitch:
    """Answers several connections, each by a function for a `Peer`. Their threads take turns."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._flows: dict[bytes, bytes] = {}
        self._groups: dict[bytes, bytes] = {}
        self._connections: list[_Connection] = []
        self.generation = 0
        """The newest that it has seen."""
        self.changes: list[int] = []
        """For each rule or group that was written: the generation of the master that did so."""
        self.stale = 0
        """Requests for a role with an old generation."""
        self.of_slaves = 0
        """Changes that a slave wanted."""

    def connection(self) -> Callable[[Frame], bytes | None]:
        """Return the answers of another connection."""
        self._connections.append(_Connection(self))
        return self._connections[-1].answer

    @property
    def masters(self) -> int:
        return sum(connection.role == MASTER for connection in self._connections)

    def answer(self, connection: _Connection, frame: Frame) -> bytes | None:
        with self._turn:
            match frame.kind:
                case MessageType.ROLE_REQUEST:
                    return self._take_role(connection, frame)
                case MessageType.EXPERIMENTER:
                    return self._take_bundle(connection, frame)
                case MessageType.MULTIPART_REQUEST:
                    return self._statistics(frame)
            return None

    def _take_role(self, connection: _Connection, frame: Frame) -> bytes | None:
        role, generation = struct.unpack_from("!IxxxxQ", frame.data, 8)
        if role != EQUAL:
            if generation < self.generation:
                self.stale += 1
                return self._error(frame, _ROLE_REQUEST_FAILED, _STALE)
            self.generation = connection.generation = generation
        if role == MASTER:
            for other in self._connections:
                other.role = SLAVE if other.role == MASTER else other.role
        connection.role = role
        return None

    @staticmethod
    def _error(frame: Frame, kind: int, code: int) -> bytes:
        return message(MessageType.ERROR, struct.pack("!HH", kind, code) + frame.data[:64], frame.xid)

    def _take_bundle(self, connection: _Connection, frame: Frame) -> bytes | None:
        if connection.role == SLAVE:
            self.of_slaves += 1
            return self._error(frame, _BAD_REQUEST, _IS_SLAVE)
        kind, control = struct.unpack_from("!I4xH", frame.data, 12)
        if kind == BUNDLE_ADD and (added := inner(frame)) is not None:
            connection.bundle.append(added)
        elif kind == BUNDLE_CONTROL and control == _COMMIT:
            for change in connection.bundle:
                self._change(change)
                self.changes.append(connection.generation)
            connection.bundle.clear()
        return None

    def _change(self, change: Frame) -> None:
        if change.kind == MessageType.FLOW_MOD:
            table, command = struct.unpack_from("!BB", change.data, 24)
            match_bytes = struct.unpack_from("!H", change.data, 50)[0]
            key = bytes([table]) + change.data[30:32] + change.data[48 : 48 + match_bytes]
            if command in DELETES:
                self._flows.pop(key, None)
            else:
                self._flows[key] = entry_of_flow_mod(change)
        else:
            command, key = struct.unpack_from("!H", change.data, 8)[0], change.data[12:16]
            if command == 2:
                self._groups.pop(key, None)
            else:
                self._groups[key] = entry_of_group_mod(change)

    def _statistics(self, frame: Frame) -> bytes | None:
        kind = struct.unpack_from("!H", frame.data, 8)[0]
        if kind == StatsType.GROUP_DESC:
            return multipart_reply(frame, b"".join(self._groups.values()))
        if kind == StatsType.FLOW and frame.data[16] == _ALL_TABLES:
            parts = [b""]
            for entry in self._flows.values():
                if len(parts[-1]) + len(entry) > _PART_BYTES:
                    parts.append(b"")
                parts[-1] += entry
            last = len(parts) - 1
            return b"".join(multipart_reply(frame, part, at < last) for at, part in enumerate(parts))
        return None


class _Connection:
    def __init__(self, switch: RememberingSwitch) -> None:
        self._switch = switch
        self.role, self.generation = EQUAL, 0
        self.bundle: list[Frame] = []

    def answer(self, frame: Frame) -> bytes | None:
        return self._switch.answer(self, frame)
