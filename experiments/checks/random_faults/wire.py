# SPDX-License-Identifier: Apache-2.0
"""What a controller and a switch have said to each other: who is master, and which writes the switch has accepted.

Pure: the caller passes the messages of one OpenFlow connection in order, with the time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from os_ken.ofproto import ofproto_v1_3 as ofp

from sluice.controller.openflow import Frame, MessageType, Role

BUNDLE_CONTROL, BUNDLE_ADD = ofp.ONF_ET_BUNDLE_CONTROL, ofp.ONF_ET_BUNDLE_ADD_MESSAGE
COMMIT_REQUEST, COMMIT_REPLY = ofp.ONF_BCT_COMMIT_REQUEST, ofp.ONF_BCT_COMMIT_REPLY
CHANGES = (MessageType.FLOW_MOD, MessageType.GROUP_MOD, MessageType.METER_MOD)
DENIALS = {
    (ofp.OFPET_BAD_REQUEST, ofp.OFPBRC_IS_SLAVE): "slave",
    (ofp.OFPET_ROLE_REQUEST_FAILED, ofp.OFPRRFC_STALE): "stale",
}
"""Type and code of the errors by which a switch refuses a controller that is not its newest master."""


@dataclass(frozen=True)
class Opened:
    """A switch has connected to a controller. All times are epoch seconds."""

    at: float
    controller: str
    switch: int


@dataclass(frozen=True)
class Closed:
    at: float
    controller: str
    switch: int


@dataclass(frozen=True)
class Mastered:
    """A switch has confirmed a controller as its master."""

    at: float
    controller: str
    switch: int
    generation: int


@dataclass(frozen=True)
class Written:
    """A switch has accepted changes of rules."""

    at: float
    controller: str
    switch: int
    generation: int
    """That of the controller's mastership on this connection; 0 if it has none."""
    sent_at: float
    """When the order went out to the switch."""
    changes: int


@dataclass(frozen=True)
class Denied:
    """A switch has refused a controller that is not its newest master."""

    at: float
    controller: str
    switch: int
    why: str


Event: TypeAlias = Opened | Closed | Mastered | Written | Denied


class Conversation:
    """One connection between a switch and a controller."""

    def __init__(self, controller: str) -> None:
        self._controller = controller
        self.switch: int | None = None
        """The datapath id, once the switch has said it."""
        self._generation = 0
        self._bundles: dict[int, int] = {}
        """Bundle → its changes so far."""
        self._commits: dict[int, tuple[float, int]] = {}
        """Bundle → when its commit was sent, and its changes."""
        self._single: list[tuple[int, float]] = []
        """Changes outside bundles that no barrier has confirmed yet: transaction id and time."""

    def ordered(self, frame: Frame, now: float) -> None:
        """Take a message of the controller."""
        if frame.kind in CHANGES:
            self._single.append((frame.xid, now))
        elif frame.kind == MessageType.EXPERIMENTER:
            kind, bundle, control = struct.unpack_from("!IIH", frame.data, 12)
            if kind == BUNDLE_ADD:
                self._bundles[bundle] = self._bundles.get(bundle, 0) + 1
            elif kind == BUNDLE_CONTROL and control == COMMIT_REQUEST:
                self._commits[bundle] = now, self._bundles.pop(bundle, 0)

    def answered(self, frame: Frame, now: float) -> Iterator[Event]:
        """Take a message of the switch. Yields what it means."""
        match frame.kind:
            case MessageType.FEATURES_REPLY:
                self.switch = struct.unpack_from("!Q", frame.data, 8)[0]
                yield Opened(now, self._controller, self.switch)
            case MessageType.ROLE_REPLY:
                role, generation = struct.unpack_from("!IxxxxQ", frame.data, 8)
                self._generation = generation if role == Role.MASTER else 0
                if role == Role.MASTER:
                    yield Mastered(now, self._controller, self._known, generation)
            case MessageType.EXPERIMENTER:
                yield from self._committed(frame, now)
            case MessageType.BARRIER_REPLY:
                yield from (self._written(now, sent_at, 1) for _, sent_at in self._single)
                self._single.clear()
            case MessageType.ERROR:
                yield from self._refused(frame, now)

    def _committed(self, frame: Frame, now: float) -> Iterator[Event]:
        kind, bundle, control = struct.unpack_from("!IIH", frame.data, 12)
        if kind == BUNDLE_CONTROL and control == COMMIT_REPLY and bundle in self._commits:
            sent_at, changes = self._commits.pop(bundle)
            if changes:
                yield self._written(now, sent_at, changes)

    def _written(self, now: float, sent_at: float, changes: int) -> Written:
        return Written(now, self._controller, self._known, self._generation, sent_at, changes)

    def _refused(self, frame: Frame, now: float) -> Iterator[Event]:
        self._single = [(xid, at) for xid, at in self._single if xid != frame.xid]
        if why := DENIALS.get(struct.unpack_from("!HH", frame.data, 8)):
            yield Denied(now, self._controller, self._known, why)

    @property
    def _known(self) -> int:
        assert self.switch is not None, "a switch says its datapath id before anything else"
        return self.switch
