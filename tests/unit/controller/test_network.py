# SPDX-License-Identifier: Apache-2.0
"""The keeper of a network that Sluice did not make, with two switches in memory that are joined by a cable."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from sluice.controller import network
from sluice.controller.network import Description, Kind, NetworkKeeper, News, S
from sluice.controller.openflow.answers import PortDescription, PortReason, PortStatus
from sluice.policy.network.description import (
    OWN_PORT,
    DeclaredPort,
    Network,
    PortAt,
    SeenHost,
    SeenPort,
    read_network,
)
from sluice.policy.network.graph import Topology
from tests.kit.controller import arrived, frame_in
from tests.kit.networks import single

FRONT, BACK = 0xF1, 0xB2
CABLE: dict[PortAt, PortAt] = {(FRONT, 2): (BACK, 2), (BACK, 2): (FRONT, 2)}
MAC = "52:54:00:00:00:11"

DECLARED: dict[str, Any] = {
    "switch": [
        {"name": "front", "datapath_id": "f1", "port": [{"name": "eth1"}, {"name": "up", "to": "back:up"}]},
        {"name": "back", "datapath_id": "b2", "port": [{"name": "eth1"}, {"name": "up", "to": "front:up"}]},
    ]
}


def ports(up: bool = True) -> tuple[SeenPort, ...]:
    return SeenPort(1, "eth1", 10**9, True), SeenPort(2, "up", 10**10, up)


@dataclass
class Lab:
    """Delivers the frames that the keeper sends, through the cables."""

    network: Network | None = None
    topology: Topology | None = None
    cables: dict[PortAt, PortAt] = field(default_factory=lambda: dict(CABLE))
    withdrawn: bool = False
    now_ns: int = 0
    news: list[News] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.keeper = NetworkKeeper()
        self.keeper.adopt(Description(self.network, self.withdrawn), self.topology, self.now_ns)

    def connect(self, *dpids: int) -> None:
        for dpid in dpids:
            self.keeper.described(dpid, PortDescription(f"br-{dpid:x}", ports()), self.now_ns)

    def run(self, for_ns: int) -> None:
        end_ns = self.now_ns + for_ns
        while self.now_ns < end_ns:
            self.now_ns += S // 10
            for dpid in (FRONT, BACK):
                for sent in list(self.keeper.announcements(dpid, self.now_ns)):
                    self._deliver(dpid, sent)
            if (news := self.keeper.news(self.now_ns)) is not None:
                self.news.append(news)

    def _deliver(self, dpid: int, sent: bytes) -> None:
        to = self.cables.get((dpid, int.from_bytes(sent[28:32], "big")))
        if to is not None:
            found = arrived(frame_in(sent), to[1])
            assert found is not None
            self.keeper.neighbour(to[0], found, self.now_ns)

    @property
    def last(self) -> Topology:
        """The newest graph."""
        found = [news.topology for news in self.news if news.topology is not None]
        return found[-1]

    def problems(self) -> list[str]:
        return [finding.kind for news in self.news for finding in news.appeared if finding.is_error]


@pytest.fixture
def declared() -> Lab:
    return Lab(read_network(DECLARED))


def test_discovery__finds_links_before_it_forwards() -> None:
    lab = Lab()
    lab.connect(FRONT, BACK)
    lab.run(2 * network.SETTLE_NS)
    graphs = [news.topology for news in lab.news if news.topology is not None]
    assert len(graphs) == 1, "no graph was made before the links were known"
    assert lab.last.kind == Kind.DISCOVERED
    assert [(p.id, p.peer, p.edge) for p in lab.last.ports] == [
        ("br-b2:1", "br-b2:eth1", True),
        ("br-b2:2", "br-f1", False),
        ("br-f1:1", "br-f1:eth1", True),
        ("br-f1:2", "br-b2", False),
    ]


def test_vlans__of_the_database_are_those_of_the_graph_and_of_what_was_seen() -> None:
    """A host that an earlier controller has learned in a VLAN stays in it."""
    lab = Lab(read_network(DECLARED))
    lab.connect(FRONT, BACK)
    lab.run(2 * network.SETTLE_NS)
    assert not lab.last.vlans
    lab.keeper.hosts_seen(FRONT, {SeenHost(MAC, (FRONT, 1), vlan=10): 0}, lab.now_ns)
    lab.keeper.hosts_seen(BACK, {SeenHost(MAC, (BACK, 1), vlan=20): 0}, lab.now_ns)
    lab.keeper.columns_reported(
        {f"{name}:eth1": DeclaredPort("eth1", tag=v) for name, v in (("front", 10), ("back", 20))}
    )
    lab.run(S)
    assert lab.last.vlans == (0, 10, 20)
    hosts = [(host.name, host.vlan, host.port) for host in lab.last.hosts]
    assert hosts == [("mac-525400000011", 10, "front:1"), ("mac-525400000011.20", 20, "back:1")]
    later = Lab(read_network(DECLARED), lab.last)
    later.keeper.columns_reported(lab.keeper.sightings().columns)
    later.connect(FRONT, BACK)
    later.run(2 * network.SETTLE_NS)
    assert set(later.keeper.sightings().hosts) == {f"{MAC} 10", f"{MAC} 20"}


def test_discovery__a_switch_that_comes_later_joins_with_its_link() -> None:
    lab = Lab()
    lab.connect(FRONT)
    lab.run(2 * network.ANNOUNCE_NS)
    assert [p.edge for p in lab.last.ports] == [True, True]
    lab.connect(BACK)
    lab.run(2 * network.SETTLE_NS)
    assert sum(not p.edge for p in lab.last.ports) == 2


def test_discovery__a_host_is_where_it_appeared_last() -> None:
    lab = Lab()
    lab.connect(FRONT, BACK)
    lab.run(2 * network.SETTLE_NS)
    for dpid, name in ((FRONT, "br-f1:1"), (BACK, "br-b2:1")):
        lab.keeper.hosts_seen(dpid, {SeenHost(MAC, (dpid, 1), "10.9.0.11"): 0}, lab.now_ns)
        lab.run(S)
        assert lab.last.edge_port("mac-525400000011").id == name
    lab.keeper.agents_named({MAC: "web1"})
    lab.run(S)
    assert [host.name for host in lab.last.hosts] == ["web1"]


def test_discovery__no_host_is_at_a_link() -> None:
    """A switch remembers for minutes who sent through a link before the link was known."""
    lab = Lab()
    lab.connect(FRONT, BACK)
    lab.run(2 * network.SETTLE_NS)
    for at in ((BACK, 1), (FRONT, 2)):
        lab.keeper.hosts_seen(at[0], {SeenHost(MAC, at, "10.9.0.11"): 0}, lab.now_ns)
        lab.run(S)
    assert lab.last.edge_port("mac-525400000011").id == "br-b2:1"


def test_discovery__a_link_without_frames_ends() -> None:
    lab = Lab()
    lab.connect(FRONT, BACK)
    lab.run(2 * network.SETTLE_NS)
    lab.cables.clear()
    lab.run(network.LINK_LIFETIME_NS // 2)
    assert lab.keeper.sightings().links
    lab.run(network.LINK_LIFETIME_NS)
    assert not lab.keeper.sightings().links


def test_a_description_needs_no_frames(declared: Lab) -> None:
    """It waits only as long as frames would need that show a loop."""
    declared.cables.clear()
    declared.connect(FRONT, BACK)
    declared.run(network.SETTLE_NS)
    assert declared.last.kind == Kind.DECLARED
    assert [p.id for p in declared.last.ports if not p.edge] == ["front:2", "back:2"]
    assert not declared.problems()


def test_a_cable_in_the_wrong_port_is_a_problem_until_it_is_mended(declared: Lab) -> None:
    declared.cables = {(FRONT, 2): (BACK, 1), (BACK, 1): (FRONT, 2)}
    declared.connect(FRONT, BACK)
    declared.run(2 * S)
    assert {"miswired", "loop"} <= set(declared.problems())
    assert "back:1" not in declared.last.port_by_id
    declared.cables = dict(CABLE)
    declared.run(network.LINK_LIFETIME_NS + network.ANNOUNCE_NS)
    assert {finding.kind for news in declared.news for finding in news.solved} >= {"miswired", "loop"}
    assert "back:1" in declared.last.port_by_id


def test_a_new_leader_waits_for_the_switches_of_the_stored_graph(declared: Lab) -> None:
    declared.connect(FRONT, BACK)
    declared.run(S)
    successor = Lab(declared.network, declared.last)
    successor.connect(FRONT)
    successor.run(network.PATIENCE_NS // 2)
    assert not successor.news, "a switch that is about to connect again must not lose its rules"
    successor.connect(BACK)
    successor.run(2 * S)
    assert all(news.topology is None for news in successor.news)


def test_a_new_leader_keeps_learned_hosts_until_their_switches_say_whom_they_remember(declared: Lab) -> None:
    declared.connect(FRONT, BACK)
    declared.keeper.hosts_seen(FRONT, {SeenHost(MAC, (FRONT, 1), "10.9.0.11"): 0}, 0)
    declared.run(2 * S)
    successor = Lab(declared.network, declared.last)
    successor.connect(FRONT, BACK)
    successor.run(2 * network.PATIENCE_NS)
    assert all(news.topology is None for news in successor.news), "a host must not lose its rules"
    successor.keeper.hosts_seen(FRONT, {}, successor.now_ns)
    successor.run(S)
    assert not successor.last.hosts


PLACES = [SeenHost(MAC, (dpid, 1), "10.9.0.11") for dpid in (FRONT, BACK)]


@pytest.mark.parametrize("order", [(FRONT, BACK), (BACK, FRONT)], ids=["the old first", "the new first"])
@pytest.mark.parametrize("stored", [FRONT, BACK], ids=["moved meanwhile", "moved before"])
def test_a_new_leader_finds_a_host_at_its_newer_place(
    declared: Lab, stored: int, order: tuple[int, int]
) -> None:
    """Both switches remember it, and only their rules say where it has been for longer."""
    declared.connect(FRONT, BACK)
    places = {place.at[0]: place for place in PLACES}
    declared.keeper.hosts_seen(stored, {places[stored]: 0}, 0)
    declared.run(2 * S)
    successor = Lab(declared.network, declared.last, now_ns=1000 * S)
    successor.connect(FRONT, BACK)
    for dpid in order:
        successor.run(2 * S)
        successor.keeper.hosts_seen(dpid, {places[dpid]: 200 if dpid == FRONT else 20}, successor.now_ns)
    successor.run(2 * S)
    graphs = [news.topology for news in successor.news if news.topology is not None]
    assert [graph.hosts[0].port for graph in graphs] == (["back:1"] if stored == FRONT else [])


def test_a_switch_forgets_a_host_that_has_left_it_for_some_seconds(declared: Lab) -> None:
    """So a host that returns is new there, and found. At a link, it is only passing by."""
    declared.connect(FRONT, BACK)
    at_link = SeenHost(MAC, (FRONT, 2))
    declared.run(2 * S)

    def departed(age_s: float) -> list[list[SeenHost]]:
        declared.keeper.hosts_seen(FRONT, {PLACES[0]: age_s, at_link: 0}, declared.now_ns)
        declared.keeper.hosts_seen(BACK, {PLACES[1]: 0}, declared.now_ns)
        declared.run(S)
        return [declared.keeper.departed(dpid, declared.now_ns) for dpid in (FRONT, BACK)]

    assert departed(200) == [[], []]
    declared.run(network.DEPARTED_NS)
    assert declared.last.hosts[0].port == "back:1"
    assert departed(200) == [[PLACES[0]], []]
    departed(0)
    assert declared.last.hosts[0].port == "front:1"
    declared.run(network.DEPARTED_NS)
    assert departed(0) == [[], [PLACES[1]]]


def test_a_new_leader_finds_a_host_whose_old_switch_stays_away(declared: Lab) -> None:
    declared.connect(FRONT, BACK)
    declared.keeper.hosts_seen(FRONT, {PLACES[0]: 0}, 0)
    declared.run(2 * S)
    successor = Lab(declared.network, declared.last, now_ns=1000 * S)
    successor.connect(BACK)
    successor.keeper.hosts_seen(BACK, {PLACES[1]: 20}, successor.now_ns)
    successor.run(network.PATIENCE_NS + S)
    assert [host.port for host in successor.last.hosts] == ["back:1"]


def test_a_new_leader_reports_a_switch_that_stays_away(declared: Lab) -> None:
    declared.connect(FRONT, BACK)
    declared.run(S)
    successor = Lab(declared.network, declared.last)
    successor.connect(FRONT)
    successor.run(network.PATIENCE_NS + S)
    assert "switch-missing" in successor.problems()


def test_a_topology_of_another_program_and_a_withdrawn_description_manage_nothing(declared: Lab) -> None:
    declared.connect(FRONT, BACK)
    declared.run(S)
    for lab in (Lab(topology=single()), Lab(topology=declared.last, withdrawn=True)):
        lab.connect(FRONT, BACK)
        lab.run(network.PATIENCE_NS)
        assert not lab.keeper.wants(FRONT)
        assert not lab.news


def test_wants__only_described_switches_if_there_is_a_description(declared: Lab) -> None:
    assert declared.keeper.wants(FRONT)
    assert not declared.keeper.wants(0xC3)
    assert Lab().keeper.wants(0xC3)


def test_a_frame_of_another_controller_shows_no_link() -> None:
    lab, other = Lab(), Lab()
    lab.connect(FRONT, BACK)
    other.connect(FRONT, BACK)
    for sent in list(other.keeper.announcements(FRONT, 0)):
        lab._deliver(FRONT, sent)
    assert not lab.keeper.sightings().links


def test_a_second_switch_with_one_id_is_a_problem_while_it_tries(declared: Lab) -> None:
    declared.connect(FRONT, BACK)
    declared.run(2 * network.SETTLE_NS)
    declared.keeper.duplicate(FRONT, "192.0.2.9", declared.now_ns)
    declared.run(S)
    assert declared.problems() == ["duplicate-datapath-id"]
    assert declared.keeper.sightings().duplicates == {FRONT: "192.0.2.9"}
    declared.run(network.DUPLICATE_NS)
    assert [finding.kind for finding in declared.news[-1].solved] == ["duplicate-datapath-id"]


def test_a_port_that_flaps_does_not_hold_other_news_back(declared: Lab) -> None:
    declared.connect(FRONT, BACK)
    declared.run(2 * network.SETTLE_NS)
    before = len(declared.news)
    for turn in range(10):
        status = PortStatus(PortReason.MODIFY, SeenPort(1, "eth1", 10**9, turn % 2 == 1))
        declared.keeper.port_changed(FRONT, status, declared.now_ns)
        declared.run(network.SETTLE_NS // 2)
    assert len(declared.news) > before


def test_a_link_that_goes_down_is_left_at_once(declared: Lab) -> None:
    declared.connect(FRONT, BACK)
    declared.run(2 * network.SETTLE_NS)
    declared.keeper.port_changed(FRONT, PortStatus(PortReason.MODIFY, ports(up=False)[1]), declared.now_ns)
    declared.run(S // 10)
    assert "link-down" in declared.problems()
    assert not declared.keeper.sightings().links


def test_the_switch_s_own_port_sends_no_frames() -> None:
    lab = Lab()
    own = (*ports(), SeenPort(OWN_PORT, "br", 0, True))
    lab.keeper.described(FRONT, PortDescription("br", own), 0)
    assert len(list(lab.keeper.announcements(FRONT, 1))) == 2
