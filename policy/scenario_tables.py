# SPDX-License-Identifier: Apache-2.0
"""The tables of a scenario and their keys, except [scheme], [workload] and [deadlines]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluice.policy.entries import TableOf, entry
from sluice.policy.errors import FieldError
from sluice.policy.framing import HEADER_BYTES, MSS_BYTES
from sluice.policy.kinds import Choice, Duration, ListOf, Number, Rate, Size, Text, Whole
from sluice.policy.links import Links
from sluice.policy.units import NS_PER_MS, NS_PER_S, NS_PER_US, US_PER_S

RTO_INITIAL_US = US_PER_S
"""RFC 6298, section 2: the timeout before a connection's first round trip has been measured."""

_TIMEOUT = Duration(NS_PER_US, 120 * NS_PER_S, to="us")
_HOST = Text(pattern=r"[^\x00]+", longest=64, what="the name of a host")


@dataclass(frozen=True)
class Fabric:
    """The [fabric] table: the arguments of `topologies.build`, and the buffer of a port."""

    topology: str
    parameters: Mapping[str, Any]
    """Keys of `sluice.policy.links.Links` by their attributes, and keys of the topology itself unchanged."""
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
    experiments/checks/ns2 shows what each changes.
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
        Choice(("fabric", "kernel", "free", "unshaped")),
        "A host's own port. fabric: it queues, marks and drops as a switch port. kernel: it has the queues alone, and"
        " TCP small queues keep in the socket what would wait there. free: it only serialises. unshaped: it takes no"
        " time, so the first queue is the switch's.",
        default="fabric",
    )
    links: str = entry(
        Choice(("real", "emulated")),
        "real: a packet takes its time on the link. emulated: a token bucket and a virtual queue, as on the testbed"
        " (policy/emulation.py).",
        default="real",
    )
    late: str = entry(
        Choice(("urgent", "plain")),
        "A flow past its deadline. urgent: it continues as the most urgent (except under sluice). plain: as one without"
        " a deadline.",
        default="urgent",
    )
    drop_by: str = entry(
        Choice(("thresholds", "push-out")),
        "How a port drops what is least urgent first, if the policy has urgent_first. thresholds: as on the testbed"
        " (dataplane/laws/drop_order.h). push-out: a packet that waits makes room for a more urgent one.",
        default="thresholds",
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
    seed: int = entry(Whole(0, 2**63), "Seed of all random numbers.", default=1)
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
