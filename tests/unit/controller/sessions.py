# SPDX-License-Identifier: Apache-2.0
"""A session with a switch that a test plays. The test reads the requests and gives the answers."""

import struct
from collections.abc import Mapping

from sluice.controller.openflow.answers import Answer, BarrierReply, BundleReply, RoleReply, StatsReply
from sluice.controller.openflow.counters import QueueCounts
from sluice.controller.openflow.frames import Frame, MessageType, StatsType
from sluice.controller.policing.overlay import PolicingOverlay
from sluice.controller.port_settings import ThresholdsInForce
from sluice.controller.session import Session
from sluice.controller.state import Desired, SwitchState
from sluice.policy.network.description import SeenHost
from sluice.policy.schema.desired import Policy
from sluice.store.totals import Tally
from tests.fakes.openflow import Xids, frames
from tests.kit.networks import single

GENERATION, MASTER = 9, 2
HAS_METERS = struct.pack("!IIIBBxx", 262_144, 1 << 1, 0xF, 8, 0)
"""Open vSwitch's features of meters: many, which can drop."""


class Connection(Xids):
    """Keeps what the session sends."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[list[Frame]] = []
        self.hung_up = False

    def send(self, data: bytes) -> bool:
        self.sent.append(frames(data))
        return True

    def hang_up(self) -> None:
        self.hung_up = True


class RecordingListener:
    """Keeps what the session reports."""

    def __init__(self) -> None:
        self.news: list[ThresholdsInForce] = []
        self.counts: list[Mapping[int, QueueCounts]] = []
        self.refusals: list[tuple[str, str]] = []
        self.leads, self.deposed = True, False

    @property
    def thresholds(self) -> dict[str, tuple[int, ...]]:
        """The latest ones, by port."""
        return {news.port: news.thresholds_bytes for news in self.news}

    def thresholds_in_force(self, state: SwitchState, news: list[ThresholdsInForce]) -> None:
        self.news += news

    def queues_counted(self, state: SwitchState, counts: Mapping[int, QueueCounts]) -> None:
        self.counts.append(counts)

    def hosts_seen(self, state: SwitchState, learned_rules: bytes) -> list[SeenHost]:
        return []

    def change_refused(self, state: SwitchState, error: str, subject: str) -> None:
        self.refusals.append((error, subject))

    def mastership_lost(self, state: SwitchState) -> None:
        self.deposed = True

    def may_act(self, now_ns: int) -> bool:
        return self.leads


class PlayedSession:
    """A session with its connection and its listener. Its methods answer the latest request."""

    def __init__(self, policy: Policy, tally: Tally | None = None) -> None:
        self.connection, self.listener = Connection(), RecordingListener()
        desired = Desired(single(), 3, policy)
        self.policing = PolicingOverlay("s1", desired, lambda switch, verdict: None)
        self.state = SwitchState("s1", desired, overlay=self.policing)
        self.session = Session(self.connection, self.state, self.listener, GENERATION, tally or Tally())

    @property
    def sent(self) -> list[list[Frame]]:
        """The messages of each request, in order."""
        return self.connection.sent

    def take(self, answer: Answer, now_ns: int = 0) -> None:
        self.session.take(now_ns, answer)

    def become_master(self) -> None:
        """Confirm the role, and forget the request for it."""
        self.session.advance(0)
        (request,) = self.sent[-1]
        assert request.data[8:] == b"\0\0\0\x02\0\0\0\0" + GENERATION.to_bytes(8, "big")
        self.take(RoleReply(request.xid, MASTER))
        del self.sent[0]

    def answer_read(self, features: bytes = HAS_METERS, flows: bytes = b"") -> None:
        """Report a switch without groups and meters, by default without rules."""
        bodies = {
            StatsType.GROUP_DESC: b"",
            StatsType.METER_FEATURES: features,
            StatsType.METER_CONFIG: b"",
            StatsType.FLOW: flows,
        }
        for frame, (kind, body) in zip(self.sent[-1], bodies.items(), strict=True):
            self.take(StatsReply(frame.xid, kind, body))

    def answer_poll(self, body: bytes, now_ns: int, kind: StatsType = StatsType.FLOW) -> None:
        self.take(StatsReply(self.sent[-1][-1].xid, kind, body), now_ns)

    def barrier(self, now_ns: int = 0) -> None:
        last = self.sent[-1][-1]
        assert last.kind == MessageType.BARRIER_REQUEST
        self.take(BarrierReply(last.xid), now_ns)

    def commit(self, now_ns: int = 0) -> None:
        """Answer both steps of a change."""
        self.barrier(now_ns)
        self.take(BundleReply(self.session._bundle_id, committed=True), now_ns)
        self.barrier(now_ns)

    def come_to_rest(self) -> None:
        self.become_master()
        self.answer_read()
        self.commit()
