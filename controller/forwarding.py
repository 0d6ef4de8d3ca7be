# SPDX-License-Identifier: Apache-2.0
"""The rules of the table `forward` and the groups: which port leads to which host.

Pure. They follow from the paths of the network alone, so they change apart from all other rules.
"""

from collections.abc import Iterable, Iterator

from sluice.controller.rules import (
    Action,
    Bucket,
    FlowRule,
    GroupKind,
    GroupRule,
    LoadMetadata,
    Output,
    Resubmit,
    SwitchRules,
    ToGroup,
)
from sluice.controller.tables import (
    CODE_MASK,
    METADATA_BITS,
    NORMAL,
    NOT_IP,
    PORT_BITS,
    PORT_MASK,
    VLAN,
    Table,
    cookie,
    match_on,
    port_and_code,
)
from sluice.policy.network.graph import Topology, Unknown

GROUP_SPACE = 0x51CE << 16
"""Numbers of Sluice's groups begin here, so that others on the same switch can have theirs."""
MAX_GROUPS = 1 << 16
FLOOD_GROUP, UNKNOWN_GROUP, FIRST_SELECT_GROUP = (GROUP_SPACE + i for i in (1, 2, 3))
_MULTICAST = ("01:00:00:00:00:00", "01:00:00:00:00:00")
_UNKNOWN_ACTIONS: dict[str, tuple[Action, ...]] = {
    Unknown.FLOOD: (ToGroup(UNKNOWN_GROUP),),
    Unknown.NORMAL: (Output(NORMAL),),
}


def _equal_cost_ports(topology: Topology, switch: str) -> dict[str, tuple[int, ...]]:
    """Return the egress port numbers towards each host, by MAC address."""
    return {
        host.mac: tuple(port.number for port in topology.next_ports(switch, host.name))
        for host in topology.hosts
    }


def _select_group_ids(paths: Iterable[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
    several = sorted({ports for ports in paths if len(ports) > 1})
    return {ports: FIRST_SELECT_GROUP + i for i, ports in enumerate(several)}


def forward_rules(topology: Topology, switch: str) -> Iterator[FlowRule]:
    """Yield the rules that choose the egress port by destination.

    A host that cannot be reached has a rule that drops its packets and counts them. The miss rule is for addresses that
    the topology lacks.
    """
    paths = _equal_cost_ports(topology, switch)
    groups = _select_group_ids(paths.values())
    table = Table.FORWARD
    yield FlowRule(table, 0, (), _UNKNOWN_ACTIONS.get(topology.unknown, ()), cookie=cookie(table))
    yield FlowRule(table, 10, match_on(eth_dst=_MULTICAST), (ToGroup(FLOOD_GROUP),), cookie=cookie(table))
    if keeps_vlans(topology, switch):
        in_vlan = match_on(eth_dst=_MULTICAST, metadata=(port_and_code(0, VLAN), CODE_MASK))
        yield FlowRule(table, 11, in_vlan, (ToGroup(UNKNOWN_GROUP),), cookie=cookie(table))
    for mac, ports in paths.items():
        match = match_on(eth_dst=mac)
        if len(ports) == 1:
            towards = (ports[0], PORT_MASK)
            yield FlowRule(
                table, 20, match, write_metadata=towards, goto=Table.COMPLETED, cookie=cookie(table, ports[0])
            )
        else:
            actions = (ToGroup(groups[ports]),) if ports else ()
            yield FlowRule(table, 20, match, actions, cookie=cookie(table))


def keeps_vlans(topology: Topology, switch: str) -> bool:
    """Whether frames of the operator's VLANs have rules of their own. A testbed has no such VLANs."""
    return topology.learns and topology.switch_by_name[switch].priority_tags


def group_rules(topology: Topology, switch: str) -> tuple[GroupRule, ...]:
    """Return the flood groups and one select group for each set of equal-cost ports.

    Broadcasts use queue 0. Packets to unknown addresses keep the queue of their tag, and frames of VLANs their VLAN.

    Open vSwitch chooses the bucket by a hash of the addresses and, for TCP, of the ports. The DSCP
    is not part of the hash, so a flow keeps its path while its tag changes. OpenFlow drops an
    output to the ingress port, so a flooded packet never returns to the port that it came from.
    """
    tree = topology.spanning_tree_ports()[switch]
    flood = tuple(
        Bucket((LoadMetadata(port_and_code(port, NOT_IP), METADATA_BITS), Resubmit(Table.MAP)))
        for port in tree
    )
    unknown = tuple(Bucket(_forward_to(port)) for port in tree)
    floods_unknown = topology.unknown == Unknown.FLOOD or keeps_vlans(topology, switch)
    groups = _select_group_ids(_equal_cost_ports(topology, switch).values())
    return (
        GroupRule(FLOOD_GROUP, GroupKind.ALL, flood),
        *((GroupRule(UNKNOWN_GROUP, GroupKind.ALL, unknown),) if floods_unknown else ()),
        *(
            GroupRule(
                group, GroupKind.SELECT, tuple(Bucket(_forward_to(port), watch_port=port) for port in ports)
            )
            for ports, group in groups.items()
        ),
    )


def _forward_to(port: int) -> tuple[Action, ...]:
    return (LoadMetadata(port, PORT_BITS), Resubmit(Table.COMPLETED))


def forwarding_rules(topology: Topology, switch: str) -> SwitchRules:
    """Return the groups and rules that follow from the paths of the network."""
    return SwitchRules(group_rules(topology, switch), tuple(forward_rules(topology, switch)))
