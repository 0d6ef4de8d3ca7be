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

A running network is the source of an export: its policy, and the thresholds for ports of another switch. A switch that
is no Open vSwitch counts nothing for Sluice. So the operator says what the port stands for:

    s1:1    a port of the network with counters: it gets the thresholds that are in force there
    h3      a host: the port leads to it, and its thresholds follow from the flows that agents have reported to it
    any     an uplink: its thresholds follow from all flows that agents have reported
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sluice.policy import tags
from sluice.policy.controls import Need
from sluice.policy.errors import SluiceError, guess
from sluice.policy.schema.desired import Policy, queue_map
from sluice.policy.schemes import Marking
from sluice.policy.schemes.classes import ClassPlan, best_of_plan, class_plan, coarse_map
from sluice.policy.schemes.ports import HIGHEST, LOWEST, MarkBy, PortMarking, last_mark_bytes
from sluice.policy.thresholds.static import Traffic
from sluice.policy.workload.sizes import SizeCdf
from sluice.remote import Remote

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
    Need.GRANTS: "Homa runs in hosts, and here in the simulator alone",
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


# ── Classes that the switch keeps from dropping ────────────────────────────────────────────────────────────────────


CLASSES = range(8)
"""Traffic classes, and queues of a port."""


@dataclass(frozen=True)
class Lossless:
    """The traffic classes for which ports have PFC, as RDMA needs them (IEEE 802.1Qbb). They stay as they are."""

    class_of_dscp: Mapping[int, int]
    queue_of_class: Mapping[int, int]

    @property
    def other_classes(self) -> list[int]:
        return [number for number in CLASSES if number not in self.queue_of_class]

    @property
    def other_queues(self) -> list[int]:
        """SONiC's indexes, increasing."""
        return [index for index in CLASSES if index not in self.queue_of_class.values()]


NO_LOSSLESS = Lossless({}, {})
READ_TABLES = ("PORT", "PORT_QOS_MAP", "DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "QUEUE")
"""What an export reads of a switch's configuration."""


def lossless_classes(config: Mapping[str, Any], interfaces: Iterable[str]) -> Lossless:
    """Read a switch's config_db.json.

    Raises SluiceError for an interface that is no port of it, for a value that is no number, and if two ports give a
    DSCP or a class different places, because all ports share the maps of an export.
    """

    def row(table: str, name: str) -> Mapping[str, str]:
        row: Mapping[str, str] = config.get(table, {}).get(name.strip("[]").rpartition("|")[2], {})
        return row

    def number(where: str, text: str) -> int:
        if not text.strip().isdecimal():
            raise SluiceError(f"--config: {where} must be whole numbers, not {text!r}")
        return int(text)

    def note(places: dict[int, int], what: str, key: int, place: int) -> None:
        if places.setdefault(key, place) != place:
            raise SluiceError(
                f"--config: {what} {key} is {places[key]} at one of these ports and {place} at another"
            )

    class_of_dscp: dict[int, int] = {}
    queue_of_class: dict[int, int] = {}
    bindings = config.get("PORT_QOS_MAP", {})
    for name in interfaces:
        if name not in config.get("PORT", {}):
            aliases = {port.get("alias"): key for key, port in config.get("PORT", {}).items()}
            hint = f": write {aliases[name]}" if name in aliases else guess(name, config.get("PORT", {}))
            raise SluiceError(f"--config: the switch has no port {name}{hint}")
        binding = {**bindings.get("global", {}), **bindings.get(name, {})}
        where = f"pfc_enable of {name}"
        protected = {number(where, text) for text in binding.get("pfc_enable", "").split(",") if text}
        queues = row("TC_TO_QUEUE_MAP", binding.get("tc_to_queue_map", ""))
        for lossless in protected:
            queue = number("TC_TO_QUEUE_MAP", queues.get(str(lossless), str(lossless)))
            note(queue_of_class, "the queue of the traffic class", lossless, queue)
        for dscp, text in row("DSCP_TO_TC_MAP", binding.get("dscp_to_tc_map", "")).items():
            if (traffic_class := number("DSCP_TO_TC_MAP", text)) in protected:
                note(
                    class_of_dscp, "the traffic class of DSCP", number("DSCP_TO_TC_MAP", dscp), traffic_class
                )
    return Lossless(class_of_dscp, queue_of_class)


def check_lossless(policy: Policy, lossless: Lossless) -> None:
    """Raise SluiceError if packets of the policy would come into a lossless class, or find no queue beside them."""
    for dscp, whose in ((tags.UNTAGGED, "packets without a tag"), (tags.BACKGROUND, "demoted hosts")):
        if dscp in lossless.class_of_dscp:
            raise SluiceError(
                f"--config: the switch has PFC for DSCP {dscp}, which {whose} have: give it another traffic class on "
                "the switch"
            )
    written = [dscp for dscp in sorted(lossless.class_of_dscp) if LOWEST <= dscp <= HIGHEST]
    if not {*written} <= {*policy.reserved_dscp}:
        wanted = sorted({*written, *policy.reserved_dscp})
        raise SluiceError(
            f"--config: the switch has PFC for DSCP {', '.join(map(str, written))}. So that no TCP comes into these "
            f"classes, reserve them in the policy: reserved_dscp = {wanted}"
        )
    if policy.queues > (most := len(lossless.other_queues)):
        raise SluiceError(
            f"--config: PFC has {len(CLASSES) - most} of the {len(CLASSES)} queues of a port, and the policy has "
            f"{policy.queues}: set queues to at most {most}"
        )


def overlaps(config: Mapping[str, Any], tables: Tables) -> list[str]:
    """Return rows of QUEUE of the switch that name several queues, and among them some of these tables."""
    found = []
    for key in config.get("QUEUE", {}):
        port, _, queues = key.rpartition("|")
        first, dash, last = queues.partition("-")
        if dash and first.isdecimal() and last.isdecimal():
            rows = {f"{port}|{index}" for index in range(int(first), int(last) + 1)}
            found += [key] if rows & tables.get("QUEUE", {}).keys() else []
    return found


# ── Tables ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def config_tables(plan: ClassPlan, ports: Sequence[SonicPort], lossless: Lossless = NO_LOSSLESS) -> Tables:
    """Return the whole configuration of these ports. Raises SluiceError for a policy that SONiC cannot carry out."""
    needs = plan.policy.needs
    impossible = [why for need, why in _IMPOSSIBLE.items() if need in needs]
    if plan.policy.definition.marking is Marking.PHANTOM:
        impossible.append("a SONiC switch has no phantom queue that marks")
    if impossible:
        raise SluiceError(f"{plan.policy.scheme}: {impossible[0]}; choose another scheme, for example sluice")
    # The two DSCPs above all tags count as untagged.
    of_tag = [*plan.class_of_tag, *[plan.class_of_tag[tags.UNTAGGED]] * (DSCPS - len(plan.class_of_tag))]
    class_of = {dscp: lossless.other_classes[number] for dscp, number in enumerate(of_tag)}
    classes = {str(dscp): str(number) for dscp, number in {**class_of, **lossless.class_of_dscp}.items()}
    marking, profiles = plan.policy.port_marking, {}
    if marking.mark_bytes is not None:
        most = marking.mark_max_bytes or marking.mark_bytes
        profiles[MAP] = _profile(marking.mark_bytes, most, max(1, round(100 * marking.mark_chance)))
        if last := _last_mark(marking):
            profiles[f"{MAP}_LAST"] = _profile(last, last)
    return {
        "DSCP_TO_TC_MAP": {MAP: classes},
        **adapted_tables(plan, ports, lossless),
        "SCHEDULER": {MAP: {"type": "STRICT"}},
        "WRED_PROFILE": profiles,
        "QUEUE": {
            f"{port.interface}|{index}": row
            for port in ports
            for index, row in zip(lossless.other_queues, _queues(plan), strict=False)
        },
        "PORT_QOS_MAP": {
            port.interface: {"dscp_to_tc_map": MAP, "tc_to_queue_map": _map_of(port)} for port in ports
        },
    }


def adapted_tables(plan: ClassPlan, ports: Sequence[SonicPort], lossless: Lossless = NO_LOSSLESS) -> Tables:
    """Return the table that depends on the thresholds of the ports."""
    indexes = lossless.other_queues[: plan.policy.queues][::-1]  # SONiC serves the highest first

    def queue_of_class(port: SonicPort) -> dict[str, str]:
        of_plan = plan.queue_of_class(port.thresholds_bytes)
        others = {lossless.other_classes[number]: indexes[queue] for number, queue in enumerate(of_plan)}
        return {
            str(number): str(index) for number, index in sorted({**others, **lossless.queue_of_class}.items())
        }

    return {ADAPTED_TABLE: {_map_of(port): queue_of_class(port) for port in ports}}


def differences(plan: ClassPlan, lossless: Lossless = NO_LOSSLESS) -> list[str]:
    """Return what the switch does otherwise than the policy says, a sentence each."""
    policy, sentences = plan.policy, []
    if queues := sorted(set(lossless.queue_of_class.values())):
        sentences.append(
            f"Queues {', '.join(map(str, queues))} are lossless (PFC) and stay as they are. SONiC serves weighted "
            "queues after all strict ones, so give them strict priority if RDMA must not wait for TCP."
        )
    if policy.definition.marking is Marking.PORT and policy.mark_by != MarkBy.QUEUE:
        sentences.append("Each queue marks by its own backlog, because WRED cannot count a whole port.")
    if policy.urgent_first:
        sentences.append("A full port drops what arrives, not what is least urgent.")
    if policy.shares is not None:
        sentences.append("The queues have strict priorities without guaranteed shares.")
    if policy.mark_at_core is not None:
        sentences.append("Ports between switches mark above mark_at, too.")
    if coarse_map(policy, policy.thresholds) != queue_map(policy, policy.thresholds):
        sentences.append("Urgency has two steps instead of sixteen.")
    sentences.append("Packets without ECN are dropped above K, because WRED does not mark them.")
    sentences.append(f"The buffer is that of the switch. The policy asks for {policy.buffer} bytes a port.")
    return sentences


def _map_of(port: SonicPort) -> str:
    return f"{MAP}_{port.interface}"


def _last_mark(marking: PortMarking) -> int:
    return last_mark_bytes(marking.mark_bytes, marking.last_mark_factor)


def _profile(least_bytes: int, most_bytes: int, percent: int = 100) -> dict[str, str]:
    row = {"ecn": "ecn_all"}
    for colour in _COLOURS:
        row[f"wred_{colour}_enable"] = "true"
        row[f"{colour}_min_threshold"] = str(least_bytes)
        row[f"{colour}_max_threshold"] = str(most_bytes)
        row[f"{colour}_drop_probability"] = str(percent)
    return row


def _queues(plan: ClassPlan) -> list[dict[str, str]]:
    """The row of each queue, from the last one of the policy to its first."""
    marking, rows = plan.policy.port_marking, []
    for number in range(plan.policy.queues):
        row = {"scheduler": MAP}
        if marking.mark_bytes is not None:
            row["wred_profile"] = f"{MAP}_LAST" if number == 0 and _last_mark(marking) else MAP
        rows.append(row)
    return rows


LEAST_FLOWS = 100
"""A plan from fewer reported flows would follow chance."""
_PAGE = 1000
_MOST_PAGES = 20
_POINTS = 200


def reported_flows(remote: Remote) -> list[tuple[str, int]]:
    """Return receiver and size in bytes of the newest 20,000 flows that host agents have reported."""
    flows: list[tuple[str, int]] = []
    path = f"flows?limit={_PAGE}"
    for _ in range(_MOST_PAGES):
        page: dict[str, Any] = remote.get(path)
        flows += [(flow["dst"], flow["bytes"]) for flow in page["flows"]]
        if page["next"] is None:
            break
        path = f"flows?limit={_PAGE}&before={page['next']}"
    return flows


ANY = "any"


@dataclass(frozen=True)
class Running:
    """What a network reports at one moment."""

    version: int
    """Of the policy."""
    policy: Policy
    in_force: Mapping[str, Sequence[int]]
    """Port with counters → its thresholds in bytes."""
    hosts: frozenset[str]
    reported: Sequence[tuple[str, int]]
    """Receiver and size of the newest flows; empty if the thresholds are fixed."""

    def traffic(self, load: float, to: str | None = None) -> Traffic | None:
        """Return the sizes of the reported flows to a host, or of all. None if they are too few."""
        sizes = [size for host, size in self.reported if to in (None, host)]
        if len(sizes) < LEAST_FLOWS:
            return None
        ranks = np.linspace(0, 1, min(_POINTS, len(sizes)))
        points = np.quantile(np.asarray(sizes, float), ranks)
        distribution = SizeCdf("reported", tuple(points.tolist()), tuple(ranks.tolist()))
        name = f"{len(sizes)} reported flows{f' to {to}' if to else ''}"
        return Traffic(distribution, load, name=name)


@dataclass(frozen=True)
class Planned:
    """The classes of a policy, and the traffic that they were chosen for."""

    plan: ClassPlan
    traffic: Sequence[Traffic]
    thresholds_bytes: tuple[int, ...]
    """Of ports of which nothing is known."""


def look(remote: Remote) -> Running:
    """Ask a web process. Raises SluiceError without a policy."""
    current: dict[str, Any] | None = remote.get("policy?limit=1")["current"]
    if current is None:
        raise SluiceError("there is no policy yet: put one in force with `sluice policy set FILE`")
    policy = Policy.from_document(current["policy"])
    thresholds: dict[str, Any] = remote.get("thresholds")["now"]
    topology = remote.get("topology")["topology"] or {"hosts": []}
    return Running(
        current["version"],
        policy,
        {port: row["thresholds_bytes"] for port, row in thresholds.items()},
        frozenset(host["name"] for host in topology["hosts"]),
        reported_flows(remote) if policy.definition.threshold_rule.adapts else (),
    )


def check_places(running: Running, places: Iterable[str]) -> None:
    """Raise SluiceError for the first place that the network does not have."""
    in_network = {*running.in_force, *running.hosts, ANY}
    for place in places:
        if place not in in_network:
            shown = ", ".join([*sorted(running.in_force), *sorted(running.hosts), ANY])
            raise SluiceError(
                f"--interfaces: the network has no port or host {place}{guess(place, in_network)}; it has {shown}"
            )


def planned(policy: Policy, traffic: Sequence[Traffic], lossless: Lossless = NO_LOSSLESS) -> Planned:
    """Choose the classes for these kinds of traffic. Raises SluiceError if adaptive thresholds have none, and as
    `check_lossless` does."""
    check_lossless(policy, lossless)
    adapts = policy.definition.threshold_rule.adapts
    if adapts and not traffic:
        raise SluiceError("the scenario names no distribution with a load: add --traffic web-search:0.8")
    models = [kind.model(policy) for kind in traffic]
    others = tuple(dscp for dscp in policy.reserved_dscp if dscp not in lossless.class_of_dscp)
    plan = class_plan(replace(policy, reserved_dscp=others), models, len(lossless.other_classes))
    return Planned(
        plan, traffic, best_of_plan(plan, models[0]) if adapts else plan.snapped(policy.thresholds)
    )


def reported_traffic(running: Running, load: float) -> list[Traffic]:
    """Return the sizes of all flows that agents have reported, or nothing for fixed thresholds. Raises SluiceError for
    too few flows.
    """
    if not running.policy.definition.threshold_rule.adapts:
        return []
    traffic = running.traffic(load)
    if traffic is None:
        raise SluiceError(
            f"hosts have reported {len(running.reported)} flows, and a plan needs {LEAST_FLOWS}: wait, or name "
            "the traffic with --traffic web-search:0.8"
        )
    return [traffic]


def ports_of(
    planning: Planned, running: Running, interfaces: Mapping[str, str], load: float
) -> list[SonicPort]:
    """Return the ports with their thresholds. `interfaces`: SONiC's name of a port → the place that it stands for."""
    of_place = {}
    for place in interfaces.values():
        if place in running.in_force:
            of_place[place] = planning.plan.snapped(running.in_force[place])
            continue
        traffic = running.traffic(load, None if place == ANY else place)
        if traffic is None:
            of_place[place] = planning.thresholds_bytes
        else:
            of_place[place] = best_of_plan(planning.plan, traffic.model(running.policy))
    return [SonicPort(interface, of_place[place]) for interface, place in interfaces.items()]


class Following:
    """The rows of a running network's ports. The classes stay until there is another policy, because all ports share
    them."""

    def __init__(
        self,
        remote: Remote,
        interfaces: Mapping[str, str],
        load: float,
        traffic: Sequence[Traffic] | None = None,
        *,
        only_maps: bool = False,
        lossless: Lossless = NO_LOSSLESS,
    ) -> None:
        """`interfaces`: see `ports_of`. `traffic`: choose classes for it instead of for the reported flows."""
        self._lossless = lossless
        self._remote, self._interfaces, self._load, self._traffic = remote, interfaces, load, traffic
        self._tables = adapted_tables if only_maps else config_tables
        self._made: tuple[int, Planned] | None = None

    def look(self) -> tuple[Tables, Planned]:
        """Return all rows as of now, and the classes of the policy. Raises SluiceError."""
        running = look(self._remote)
        check_places(running, self._interfaces.values())
        if self._made is None or running.version != self._made[0]:
            traffic = self._traffic or reported_traffic(running, self._load)
            self._made = running.version, planned(running.policy, traffic, self._lossless)
        planning = self._made[1]
        ports = ports_of(planning, running, self._interfaces, self._load)
        return self._tables(planning.plan, ports, self._lossless), planning
