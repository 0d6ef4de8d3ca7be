# SPDX-License-Identifier: Apache-2.0
"""A scenario: one TOML document that the testbed and the simulator both run. Unknown keys are errors.

This module turns the parsed tables into checked values. The caller reads the files and passes `load_cdf`.
The keys of all tables are here, except those of [scheme], [workload] and [deadlines].
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any, NoReturn, TypeAlias

import numpy as np

from sluice.policy.errors import FieldError, guess, refuse_unknown, unknown_key
from sluice.policy.network.graph import Links, Topology
from sluice.policy.schema.desired import Policy, check_ports, unknown_port
from sluice.policy.schema.entries import TableOf, entries, entry, read
from sluice.policy.schema.field_kinds import PORT_NAMES
from sluice.policy.schema.fields import POLICY_FIELDS
from sluice.policy.schema.fitting import NetworkPath, Surroundings, fitted
from sluice.policy.schema.kinds import Choice, Duration, Flag, ListOf, Number, Rate, Size, Text, Whole
from sluice.policy.thresholds.static import Traffic
from sluice.policy.units import HEADER_BYTES, MSS_BYTES, NS_PER_MS, NS_PER_S, NS_PER_US, US_PER_S
from sluice.policy.wire.records import ScheduledFlow
from sluice.policy.workload.flows import FlowBatch, Workload, flows_of
from sluice.policy.workload.listed_flows import TIME_S, ExplicitWorkload, explicit_batches
from sluice.policy.workload.random_flows import check_random, random_batches
from sluice.policy.workload.sizes import Mix
from sluice.policy.workload.tables import AnyWorkload, LoadCdf, LoadTrace, workload_from

RTO_INITIAL_US = US_PER_S
"""RFC 6298, section 2: the timeout before a connection's first round trip has been measured."""

_TIMEOUT = Duration(NS_PER_US, 120 * NS_PER_S, to="us")
LISTED_SEED = 1
"""With this seed, flows that a file lists run exactly as listed."""
_HOST = Text(pattern=r"[^\x00]+", longest=64, what="the name of a host")


@dataclass(frozen=True)
class Fabric:
    """The [fabric] table: the arguments of `topologies.build`, and the buffer of a port."""

    topology: str
    parameters: Mapping[str, Any]
    """Keys of `sluice.policy.network.graph.Links` by their attributes, and keys of the topology itself unchanged."""
    buffer_bytes: int | None
    """None: the scheme's default."""


@dataclass(frozen=True)
class FabricKeys(Links):
    """The keys of [fabric] that do not depend on the topology."""

    topology: str = entry(
        Text(longest=64),
        "Kind of network: single, dumbbell, leaf-spine, fat-tree, or that of a plugin. With the key file, it is file.",
    )
    buffer_bytes: int | None = entry(
        Size(1, 10**12),
        "Size of a port's buffer, which all its queues share. [scheme] may set another buffer. By default, the"
        " scheme's.",
        key="buffer",
        default=None,
    )


@dataclass(frozen=True)
class Transport:
    """The [transport] table: the TCP settings of every host."""

    initial_window: int = entry(Whole(1, 1000, "packets"), "First window of a connection.", default=10)
    rto_min_us: int = entry(
        _TIMEOUT,
        "Minimum retransmission timeout. The testbed takes whole milliseconds, the simulator microseconds.",
        key="rto_min",
        default=10_000,
    )
    connections: str = entry(
        Choice(("new", "persistent")),
        "new: one connection for each flow. persistent: flows to one destination share connections.",
        default="new",
    )
    max_window: int | None = entry(
        Whole(1, 100_000, "packets"),
        "The most packets that a sender has in flight. By default, the congestion control's own limit.",
        default=None,
    )
    tags: str = entry(
        Choice(("packet", "socket")),
        "packet: each packet carries its own tag. socket: packets that may leave at one time carry the tag of the last,"
        " as where the socket writes it.",
        default="packet",
    )

    @property
    def rto_min_ms(self) -> int:
        """Return the timeout as a kernel takes it. Raises FieldError unless it is whole milliseconds."""
        milliseconds, rest_us = divmod(self.rto_min_us, 1000)
        if rest_us or not milliseconds:
            raise FieldError(
                "transport.rto_min",
                f"is {self.rto_min_us} us, but the testbed's kernel takes whole milliseconds, at least 1: "
                f'give "{max(1, round(self.rto_min_us / 1000))}ms", or run it on the simulator',
            )
        return milliseconds


@dataclass(frozen=True)
class TcpVariant:
    """The [simulator.tcp] table: where implementations of TCP differ. The defaults are Linux's.

    Each other value is ns-2's: FullTcp with the patch of pFabric's authors, which PIAS's authors use, too. The check
    experiments/checks/ns2.py shows what each changes.
    """

    first_alpha: float = entry(
        Number(0, 1),
        "DCTCP's alpha of a new connection. ns-2: 0.0625, as the ECN flag of the SYN-ACK counts as a mark.",
        default=1.0,
    )
    cut: str = entry(
        Choice(("gradual", "at-once")),
        "How marks cut the window. gradual: along with the ACKs (RFC 6937). at-once: ns-2.",
        default="gradual",
    )
    bounds: str = entry(
        Choice(("in-flight", "from-first")),
        "What the window bounds. in-flight: packets in flight. from-first: all from the first unacknowledged packet on,"
        " even those that have arrived; ns-2.",
        default="in-flight",
    )
    changes: str = entry(
        Choice(("by-delivery", "by-advance")),
        "Which ACKs change the window. by-delivery: each, by the packets that it reports. by-advance: each that"
        " acknowledges the first unacknowledged packet, as for one packet; ns-2.",
        default="by-delivery",
    )
    keep: str = entry(
        Choice(("nothing", "threshold")),
        "What the next flow of a persistent connection keeps. threshold: alpha and what counts for it, and the"
        " threshold of slow start; ns-2.",
        default="nothing",
    )
    timeout: str = entry(
        Choice(("adaptive", "fixed")),
        "adaptive: it follows the round-trip time, and doubles. fixed: it is always rto_min; ns-2.",
        default="adaptive",
    )
    probe_after: int = entry(
        Whole(0, 1000, "timeouts"),
        "After so many timeouts in a row a sender only probes. ns-2: 5. 0: never.",
        default=0,
    )
    ends: str = entry(
        Choice(("arrival", "ack")),
        "When a flow has ended. arrival: its last byte has arrived. ack: the sender knows it; ns-2.",
        default="arrival",
    )
    payload_bytes: int = entry(
        Size(64, 9000), "Payload of a full packet. ns-2: 1460B.", key="payload", default=MSS_BYTES
    )
    header_bytes: int = entry(
        Size(20, 200), "Headers of every packet. ns-2: 40B.", key="headers", default=HEADER_BYTES
    )
    fractions: str = entry(
        Choice(("round", "keep")),
        "How a cut for marks ends. round: at whole packets, two or more. keep: a fraction of a packet stays in the"
        " window, of one packet or more; ns-2.",
        default="round",
    )
    alpha_counts: str = entry(
        Choice(("packets", "acks")),
        "What DCTCP's alpha is the marked share of. packets: each that arrives. acks: each ACK, for the packets by"
        " which it advances, or for one; ns-2.",
        default="packets",
    )
    after_timeout: str = entry(
        Choice(("halve", "spare")),
        "Slow start's threshold after a timeout. halve: half the window. spare: as it was if the last cut was for"
        " marks; ns-2.",
        default="halve",
    )
    busy: str = entry(
        Choice(("share", "open")),
        "A flow between hosts whose persistent connections are all busy. share: it begins at once. open: a handshake"
        " opens a further one; ns-2.",
        default="share",
    )
    sack_option_bytes: int = entry(
        Size(0, 40),
        "Bytes of an ACK's SACK option without its blocks; each of up to three blocks has 8 more. ns-2: 2B. 0B: an ACK"
        " is no longer with SACK blocks.",
        key="sack_option",
        default=0,
    )


SPRAYS = ("per-packet", "per-packet-and-host")
"""The values of `multipath` with which the packets of a flow take several paths."""


@dataclass(frozen=True)
class Fault:
    """A [[simulator.fault]] table: a link that loses packets for some time."""

    link: str = entry(
        Text(longest=130),
        'The names of its ends, for example "s1-s5" or "h1-s1"; also all parallel links of the two.',
    )
    loss: float = entry(
        Number(1e-9, 1),
        "Share of the packets that are lost before they enter the link, in both directions, each by chance. 1: the link"
        " is cut.",
        default=1.0,
    )
    start_s: float = entry(TIME_S, "When it begins.", key="start", default=0.0)
    until_s: float | None = entry(TIME_S, "When it ends. By default never.", key="until", default=None)
    reroute_s: float | None = entry(
        TIME_S,
        "How long after a cut and after its end the switches notice, and choose among equal-cost paths without the link"
        " or with it. By default they never do.",
        key="reroute",
        default=None,
    )


@dataclass(frozen=True)
class SharedBuffer:
    """The [simulator.shared_buffer] table: all ports of a switch share one buffer, which replaces theirs."""

    size_bytes: int = entry(Size(10_000, 10**11), "Buffer of each switch, with all headroom.", key="size")
    alpha: float = entry(
        Number(0.001, 64),
        "A queue may hold this multiple of what is free (Choudhury and Hahne, 1998). With pfc that is what has come by"
        " one link in one priority.",
        default=1.0,
    )
    pfc: bool = entry(
        Flag(),
        "Priority flow control: beyond the limit, a switch pauses that priority at the other end of the link, and keeps"
        " what arrives meanwhile in headroom. Otherwise it drops the packet.",
        default=False,
    )
    acks_first: bool = entry(
        Flag(),
        "Whether ACKs have a priority of their own before all data, as reports of marks have in RDMA networks.",
        default=False,
    )
    resume_margin_bytes: int = entry(
        Size(0, 10**9),
        "With pfc, a pause ends once what the link has in the buffer is below the limit by this, or gone.",
        key="resume_margin",
        default=3000,
    )


@dataclass(frozen=True)
class SimulatorSettings:
    """The [simulator] table: properties that a testbed has by nature. The testbed ignores it."""

    multipath: str = entry(
        Choice(("per-flow", *SPRAYS)),
        "Equal-cost links. per-flow: chosen by a hash of the flow. per-packet: packets to hosts of one edge switch take"
        " them in turn. per-packet-and-host: packets to one host do; ns-2.",
        default="per-flow",
    )
    duplicate_threshold: int = entry(
        Whole(0, 10**6, "packets"),
        "Packets beyond a gap until it counts as lost. 0: only timeouts find losses.",
        default=3,
    )
    recovery: str = entry(
        Choice(("linux", "plain")),
        "linux: RACK-TLP (RFC 8985) finds lost retransmissions and tails, and learns how far packets overtake each"
        " other. Eifel undoes needless reductions. plain: RFC 6298 alone, as in ns-2 and ns-3. By default linux, or"
        " plain with duplicate_threshold = 0.",
        default="linux",
    )
    packets_per_ack: int = entry(Whole(1, 64), "Packets that one ACK acknowledges.", default=1)
    ack_delay_ns: int = entry(
        Duration(1, NS_PER_S), "How long an ACK waits for another packet.", key="ack_delay", default=500_000
    )
    rto_initial_us: int = entry(
        _TIMEOUT,
        "Timeout before the first round trip was measured. By default 1 s, or rto_min with persistent connections.",
        key="rto_initial",
        default=RTO_INITIAL_US,
    )
    uplink: str = entry(
        Choice(("fabric", "kernel", "fair", "free", "unshaped")),
        "A host's own port. fabric: it queues, marks and drops as a switch port. kernel: it has the queues alone, and"
        " TCP small queues keep in the socket what would wait there. fair: its flows send in turn, a packet each, as"
        " with fq or an RDMA card. free: it only serialises. unshaped: it takes no time, so the first queue is the"
        " switch's.",
        default="fabric",
    )
    links: str = entry(
        Choice(("real", "emulated")),
        "real: a packet takes its time on the link. emulated: a token bucket and a virtual queue, as on the testbed"
        " (policy/schemes/ports.py).",
        default="real",
    )
    late: str = entry(
        Choice(("urgent", "plain")),
        "A flow past its deadline. urgent: it continues as the most urgent (except under sluice). plain: as one without"
        " a deadline.",
        default="urgent",
    )
    threads: int | None = entry(
        Whole(1, 64),
        "Threads that simulate one run. Their number changes no result. Events of one time are in another order than"
        " without this key. From 256 hosts on, 1 is faster than no threads, too.",
        default=None,
    )
    tcp: TcpVariant | None = entry(
        TableOf(TcpVariant), "Where implementations of TCP differ. By default, TCP is Linux's.", default=None
    )
    undo: str = entry(
        Choice(("late", "early")),
        "When recovery = linux undoes a reduction for packets that were only late. late: once no retransmission is in"
        " flight, as in Linux. early: with the first late packet.",
        default="early",
    )
    tick_ns: int = entry(
        Duration(0, NS_PER_S),
        "Time between two ticks of the clock by which a host's retransmission timers fire: 4ms for a kernel with"
        " 250 Hz. 0s: timers are exact.",
        key="tick",
        default=0,
    )
    sample_ports_ns: int | None = entry(
        Duration(NS_PER_US, 60 * NS_PER_S),
        "Time between two samples of switch ports: queue, bytes, marks and drops. By default, no samples.",
        key="sample_ports",
        default=None,
    )
    sampled_ports: tuple[str, ...] = entry(
        PORT_NAMES,
        'The ports of sample_ports: "s1:2", all ports of a switch ("s1:*") or all ports ("*").',
        default=("*",),
    )
    traced_ports: tuple[str, ...] = entry(PORT_NAMES, "Ports whose packets trace.parquet has.", default=())
    traced_flows: tuple[int, ...] = entry(
        ListOf(Whole(0, 2**32 - 1)),
        "Flows whose packets and windows trace.parquet has, by number: from 0 in the order of their starts.",
        default=(),
    )
    measure_from_s: float = entry(
        TIME_S,
        "Flows that start before are simulated and recorded, but no figure of the summary or a report counts them.",
        key="measure_from",
        default=0.0,
    )
    until_s: float | None = entry(
        TIME_S,
        "When the run ends, at the latest. Flows that have not ended then are unfinished. Random flows that would start"
        " later are left out. By default, grace alone ends a run.",
        key="until",
        default=None,
    )
    shared_buffer: SharedBuffer | None = entry(
        TableOf(SharedBuffer),
        "One buffer for all ports of a switch, and priority flow control (PFC). By default, each port has its own.",
        default=None,
    )
    faults: tuple[Fault, ...] = entry(
        ListOf(TableOf(Fault), longest=1000), "Links that fail while the run lasts.", key="fault", default=()
    )


@dataclass(frozen=True)
class Background:
    """A [[background]] table: a long flow besides the workload, by iperf on the testbed. It is not
    part of the result."""

    source: str = entry(_HOST, "Sending host.", key="from")
    to: str = entry(_HOST, "Receiving host.")
    rate_bps: int | None = entry(
        Rate(1, 10**12), "Rate of the flow. By default, as much as it gets.", key="rate", default=None
    )


@dataclass(frozen=True)
class ScenarioKeys:
    """The keys at the top of a scenario, without its tables."""

    name: str = entry(
        Text(pattern=r"[^/\x00]+", longest=200, what="text without a slash"), "Name of the scenario."
    )
    seed: int = entry(
        Whole(0, 2**63),
        "Seed of all random numbers. Flows of a list or a table run exactly as listed with the seed 1, and others vary"
        " them (`workload.vary`).",
        default=LISTED_SEED,
    )
    sample_ms: int | None = entry(
        Duration(10 * NS_PER_MS, 60 * NS_PER_S, to="ms"),
        "Time between two samples of every flow (rate, alpha, urgency, precedence). By default, no samples.",
        key="sample",
        default=None,
    )
    grace_s: float = entry(
        Duration(0, 3600 * NS_PER_S, to="s", whole=False),
        "How long flows may run after the last start.",
        key="grace",
        default=10.0,
    )
    background: tuple[Background, ...] = entry(
        ListOf(TableOf(Background)), "Long flows besides the workload.", default=()
    )


TABLES = ("fabric", "scheme", "transport", "simulator", "workload", "deadlines")
"""The tables of a scenario, besides the keys at its top."""

SCHEME_KEYS = ("name", *(field.name for field in POLICY_FIELDS if field.name != "scheme"))
"""The keys of [scheme]: the policy's fields, where `name` is the scheme."""


@dataclass(frozen=True, kw_only=True)
class Scenario(ScenarioKeys):
    """A whole scenario."""

    fabric: Fabric
    policy: Policy
    transport: Transport
    workload: AnyWorkload
    simulator: SimulatorSettings = field(default_factory=SimulatorSettings)

    @property
    def varies_listed(self) -> bool:
        """Whether the flows come from a file or a list, and the seed varies their starts and paths.

        Otherwise several seeds would be one run, counted several times.
        """
        return isinstance(self.workload, ExplicitWorkload) and self.workload.vary and self.seed != LISTED_SEED

    @property
    def path_salt(self) -> int:
        """What the seed adds to the hash by which the simulator chooses among equal-cost links; 0: nothing."""
        return int(np.random.SeedSequence(self.seed).generate_state(1)[0]) if self.varies_listed else 0

    @property
    def size_scale(self) -> float:
        """The scale of the workload's sizes, and of the limits between the size classes."""
        return 1.0 if isinstance(self.workload, ExplicitWorkload) else self.workload.scale


def no_traces(name: str) -> NoReturn:
    """Refuse a trace, for callers that read no files. Raises FieldError."""
    raise FieldError("workload.trace", f"{name!r} cannot be read here: run the scenario from a file")


FindPath: TypeAlias = Callable[[Fabric], NetworkPath | None]
"""Returns the path of a fabric, to which the scheme's defaults are fitted."""


def scenario_from_document(
    document: Mapping[str, Any],
    load_cdf: LoadCdf,
    load_trace: LoadTrace = no_traces,
    find_path: FindPath = lambda fabric: None,
) -> Scenario:
    """Check a parsed scenario. Raises FieldError that names the key ("workload.load") and what is allowed.

    Without `find_path`, the scheme's defaults are those for 10 Gb/s.
    """
    top_keys = {key: value for key, value in document.items() if key not in TABLES}
    refuse_unknown(top_keys, [*(spec.key for spec in entries(ScenarioKeys)), *TABLES])
    for table in ("fabric", "scheme", "workload"):
        if table not in document:
            raise FieldError(table, "is missing; a scenario needs the tables fabric, scheme and workload")
    top = read(ScenarioKeys, top_keys)
    fabric = _fabric(document["fabric"])
    transport = read(Transport, document.get("transport", {}), "transport")
    simulator = _simulator(document.get("simulator", {}), transport)
    workload = workload_from(document["workload"], document.get("deadlines"), load_cdf, load_trace)
    policy = _policy(document["scheme"], fabric, workload, find_path(fabric))
    return Scenario(
        **vars(top),
        fabric=fabric,
        policy=policy,
        transport=transport,
        workload=workload,
        simulator=simulator,
    )


def scheduled_batches(
    scenario: Scenario,
    topology: Topology,
    rng: np.random.Generator,
    until_s: float = math.inf,
) -> Iterator[FlowBatch]:
    """Yield every flow of a run that starts before `until_s`, by start time, in batches of about BATCH_FLOWS at most.

    The same generator state gives the same flows for every size of a batch. The call raises
    FieldError if the topology lacks hosts for the workload.
    """
    check_hosts(scenario, topology.host_by_name)
    workload = scenario.workload
    if isinstance(workload, ExplicitWorkload):
        if workload.has_followers:
            raise FieldError(
                "workload",
                "has flows that start after others (after, [[workload.collective]]), as only `sluice run` and"
                " `sluice sweep` on the simulator can: use --on simulator",
            )
        return explicit_batches(workload, topology, rng if scenario.varies_listed else None, until_s)
    return random_batches(workload, topology, rng, until_s)


def scheduled_flows(
    scenario: Scenario,
    topology: Topology,
    rng: np.random.Generator,
    run_id: str,
    until_s: float = math.inf,
) -> list[ScheduledFlow]:
    """Return the same flows as objects. A flow's id contains its number in the run."""
    batches = scheduled_batches(scenario, topology, rng, until_s)
    return flows_of(batches, topology, run_id, scenario.size_scale)


def check_topology(scenario: Scenario, topology: Topology) -> None:
    """Raise FieldError if the topology lacks something for the scenario, or if a link cannot carry its load."""
    check_hosts(scenario, topology.host_by_name)
    try:
        check_ports(scenario.policy, topology.port_by_id)
    except FieldError as error:
        raise FieldError(f"scheme.{error.field}", error.problem) from None
    for key in ("sampled_ports", "traced_ports"):
        for name in getattr(scenario.simulator, key):
            if problem := unknown_port(name, topology.port_by_id):
                raise FieldError(f"simulator.{key}", problem)
    ends = {f"{a}-{b}" for port in topology.ports for a, b in permutations((port.switch, port.peer))}
    for i, fault in enumerate(scenario.simulator.faults):
        if fault.link not in ends:
            raise FieldError(
                f"simulator.fault[{i}].link",
                f"{fault.link!r} is not a link of the network{guess(fault.link, ends)}",
            )
    if not isinstance(scenario.workload, ExplicitWorkload):
        check_random(scenario.workload, topology)


def _fabric(table: object) -> Fabric:
    """Read [fabric]. The topology's own keys are checked when it is built. A file needs no topology = "file"."""
    if not isinstance(table, Mapping):
        raise FieldError("fabric", "must be a table")
    table = {"topology": "file", **table} if "file" in table else table
    allowed = {spec.key for spec in entries(FabricKeys)}
    keys = read(FabricKeys, {key: value for key, value in table.items() if key in allowed}, "fabric")
    links = {spec.name: getattr(keys, spec.name) for spec in entries(Links) if spec.key in table}
    own = {key: value for key, value in table.items() if key not in allowed}
    for name in own.keys() & {spec.name for spec in entries(FabricKeys)}:  # an attribute is no key
        raise unknown_key(f"fabric.{name}", name, sorted(allowed))
    return Fabric(keys.topology, {**own, **links}, keys.buffer_bytes)


def _policy(table: object, fabric: Fabric, workload: AnyWorkload, path: NetworkPath | None) -> Policy:
    if not isinstance(table, Mapping):
        raise FieldError("scheme", "must be a table with a name")
    refuse_unknown(table, SCHEME_KEYS, "scheme.")
    document = {"buffer": fabric.buffer_bytes, **table}
    document["scheme"] = document.pop("name", None)
    try:
        return fitted(document, Surroundings(path, traffic=traffic_of(workload))).policy
    except FieldError as error:
        elsewhere = {"scheme": "scheme.name"} | ({} if "buffer" in table else {"buffer": "fabric.buffer"})
        raise FieldError(elsewhere.get(error.field, f"scheme.{error.field}"), error.problem) from None


def traffic_of(workload: AnyWorkload) -> Traffic | None:
    """Return the traffic of a workload, if it has a distribution of sizes and a load."""
    if not isinstance(workload, Workload) or workload.load is None:
        return None
    return Traffic(workload.sizes, workload.load, workload.scale)


def _simulator(table: object, transport: Transport) -> SimulatorSettings:
    """Read [simulator]. A persistent connection has measured its round trip before the run, so its
    timeout is the minimum."""
    settings = read(SimulatorSettings, table, "simulator")
    given = table if isinstance(table, Mapping) else {}
    for i, fault in enumerate(settings.faults):
        where = f"simulator.fault[{i}]"
        if fault.until_s is not None and fault.until_s <= fault.start_s:
            raise FieldError(f"{where}.until", "must be later than start")
        if fault.reroute_s is not None and fault.loss < 1:
            raise FieldError(f"{where}.reroute", "applies only to a link that is cut: omit it, or loss")
    if settings.until_s is not None and settings.until_s <= settings.measure_from_s:
        raise FieldError("simulator.until", "must be later than measure_from, and than 0")
    if "sampled_ports" in given and settings.sample_ports_ns is None:
        raise FieldError("simulator.sampled_ports", "needs sample_ports, the time between two samples")
    if "recovery" not in given and not settings.duplicate_threshold:
        settings = replace(settings, recovery="plain")
    if "rto_initial" not in given and transport.connections == "persistent":
        settings = replace(settings, rto_initial_us=transport.rto_min_us)
    return settings


def check_hosts(scenario: Scenario, hosts: Collection[str]) -> None:
    """Raise FieldError if a host that the scenario names is not in the topology."""
    named = _workload_hosts(scenario.workload)
    for flow in scenario.background:
        named += [("background.from", "", flow.source), ("background.to", "", flow.to)]
    for key, place, name in named:
        if name is not None and name not in hosts:
            raise FieldError(
                key, f"{place}{name!r} is not a host of the topology; hosts are h1 … h{len(hosts)}"
            )


def _workload_hosts(workload: AnyWorkload) -> list[tuple[str, str, str | None]]:
    """Return (key, place within a file, host) for every host that the workload names."""
    if isinstance(workload, ExplicitWorkload):
        return [
            (*workload.place(i, key), name)
            for i, flow in enumerate(workload.flows)
            for key, name in (("from", flow.source), ("to", flow.to))
        ]
    named: list[tuple[str, str, str | None]] = [("workload.to", "", workload.to)]
    for sizes in workload.all_sizes:
        if isinstance(sizes, Mix):
            named += [("workload.mix.from", "", name) for part in sizes.parts for name in part.group.sources]
    return named


SCHEME = Text(longest=64)
"""A scheme, or a variant of [sweep.scheme]."""
LOAD = Number(0.001, 0.99)
SEED = Whole(0, 2**63)
