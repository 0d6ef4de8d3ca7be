# SPDX-License-Identifier: Apache-2.0
"""SONiC's configuration (config_db.json) of a policy: the tables that classify, queue, mark and schedule.

SONiC maps the DSCP of a packet to one of eight traffic classes, and the class to a queue of the egress port:

    DSCP_TO_TC_MAP      one map for the switch, from the class plan (policy/schemes/classes.py)
    TC_TO_QUEUE_MAP     one map for each port: the only table that a change of thresholds changes
    PORT_QOS_MAP        binds both maps to a port
    SCHEDULER, QUEUE    strict priorities; SONiC serves the queue with the highest index first
    WRED_PROFILE        ECN by the queue's own backlog: marks above K, all packets or none

Names and limits of the tables are those of SONiC's YANG models (sonic-net/sonic-buildimage, src/sonic-yang-models:
sonic-dscp-tc-map, sonic-tc-queue-map, sonic-port-qos-map, sonic-scheduler, sonic-queue, sonic-wred-profile). All values
are texts, as in config_db.json.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluice.policy.controls import Need
from sluice.policy.errors import SluiceError
from sluice.policy.schema.desired import queue_map
from sluice.policy.schemes import Marking
from sluice.policy.schemes.classes import ClassPlan, coarse_map
from sluice.policy.schemes.ports import MarkBy, PortMarking, last_mark_bytes

Tables = dict[str, dict[str, dict[str, str]]]
"""Table → row → field → value, as in config_db.json."""

MAP = "SLUICE"
"""Name of the rows that all ports share. Rows of one port have the port's name behind it."""
ADAPTED_TABLE = "TC_TO_QUEUE_MAP"
DSCPS = 64
_INTERFACE = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,23}")
_COLOURS = ("green", "yellow", "red")
_IMPOSSIBLE: Mapping[Need, str] = {
    Need.FLOW_QUEUES: "scheme.flow_queues = true: a SONiC switch has no queue for each flow",
    Need.EXPLICIT_RATES: "a SONiC switch writes no rates into packets",
    Need.SHORTEST_FIRST: "a SONiC switch cannot serve the flow with the fewest remaining bytes first",
}


@dataclass(frozen=True)
class SonicPort:
    """One egress port."""

    interface: str
    """SONiC's name, for example Ethernet0."""
    thresholds_bytes: tuple[int, ...]
    """Thresholds of the port, which are edges of the plan."""


def check_interface(name: str) -> str:
    """Return the name. Raises SluiceError if SONiC could not have such a port."""
    if not _INTERFACE.fullmatch(name):
        raise SluiceError(
            f"{name!r} is no name of a SONiC port: give letters and digits, for example Ethernet0 (at most 24)"
        )
    return name


def config_tables(plan: ClassPlan, ports: Sequence[SonicPort]) -> Tables:
    """Return the whole configuration of these ports. Raises SluiceError for a policy that SONiC cannot carry out."""
    _check(plan)
    return {
        "DSCP_TO_TC_MAP": {MAP: _classes(plan)},
        **adapted_tables(plan, ports),
        "SCHEDULER": {MAP: {"type": "STRICT"}},
        "WRED_PROFILE": _profiles(plan),
        "QUEUE": {f"{port.interface}|{q}": row for port in ports for q, row in _queues(plan).items()},
        "PORT_QOS_MAP": {
            port.interface: {"dscp_to_tc_map": MAP, "tc_to_queue_map": _map_of(port)} for port in ports
        },
    }


def adapted_tables(plan: ClassPlan, ports: Sequence[SonicPort]) -> Tables:
    """Return the table that depends on the thresholds of the ports."""
    top = plan.policy.queues - 1
    return {
        ADAPTED_TABLE: {
            _map_of(port): {
                str(one): str(top - queue)
                for one, queue in enumerate(plan.queue_of_class(port.thresholds_bytes))
            }
            for port in ports
        }
    }


def differences(plan: ClassPlan) -> list[str]:
    """Return what the switch does otherwise than the policy says, a sentence each."""
    policy, found = plan.policy, []
    if policy.definition.marking is Marking.PORT and policy.mark_by != MarkBy.QUEUE:
        found.append("Each queue marks by its own backlog, because WRED cannot count a whole port.")
    if policy.urgent_first:
        found.append("A full port drops what arrives, not what is least urgent.")
    if policy.shares is not None:
        found.append("The queues have strict priorities without guaranteed shares.")
    if policy.mark_at_core is not None:
        found.append("Ports between switches mark above mark_at, too.")
    if coarse_map(policy, policy.thresholds) != queue_map(policy, policy.thresholds):
        found.append("Urgency has two steps instead of sixteen.")
    found.append("Packets without ECN are dropped above K, because WRED does not mark them.")
    found.append(f"The buffer is that of the switch. The policy asks for {policy.buffer} bytes a port.")
    return found


def _check(plan: ClassPlan) -> None:
    needs = plan.policy.needs
    impossible = [why for need, why in _IMPOSSIBLE.items() if need in needs]
    if plan.policy.definition.marking is Marking.PHANTOM:
        impossible.append("a SONiC switch has no phantom queue that marks")
    if impossible:
        raise SluiceError(f"{plan.policy.scheme}: {impossible[0]}; choose another scheme, for example sluice")


def _map_of(port: SonicPort) -> str:
    return f"{MAP}_{port.interface}"


def _classes(plan: ClassPlan) -> dict[str, str]:
    """The class of each DSCP. The two DSCPs above all tags count as untagged."""
    of_tag = plan.class_of_tag
    return {str(dscp): str(of_tag[dscp] if dscp < len(of_tag) else of_tag[0]) for dscp in range(DSCPS)}


def _profiles(plan: ClassPlan) -> dict[str, dict[str, str]]:
    marking = plan.policy.port_marking
    if marking.mark_bytes is None:
        return {}
    found = {MAP: _profile(marking.mark_bytes, marking.mark_max_bytes or marking.mark_bytes)}
    last = _last_mark(marking)
    if last:
        found[f"{MAP}_LAST"] = _profile(last, last)
    return found


def _last_mark(marking: PortMarking) -> int:
    return last_mark_bytes(marking.mark_bytes, marking.last_mark_factor)


def _profile(least_bytes: int, most_bytes: int) -> dict[str, str]:
    row = {"ecn": "ecn_all"}
    for colour in _COLOURS:
        row[f"wred_{colour}_enable"] = "true"
        row[f"{colour}_min_threshold"] = str(least_bytes)
        row[f"{colour}_max_threshold"] = str(most_bytes)
        row[f"{colour}_drop_probability"] = "100"
    return row


def _queues(plan: ClassPlan) -> dict[str, dict[str, str]]:
    """The row of each queue, by SONiC's index. Index 0 is the last queue of the policy."""
    marking, rows = plan.policy.port_marking, {}
    for index in range(plan.policy.queues):
        row = {"scheduler": MAP}
        if marking.mark_bytes is not None:
            row["wred_profile"] = f"{MAP}_LAST" if index == 0 and _last_mark(marking) else MAP
        rows[str(index)] = row
    return rows
