# SPDX-License-Identifier: Apache-2.0
"""The schemes, one record each. To add one, write it here and name it in `SCHEMES`.

The parts of a scheme: a congestion control for the hosts; thresholds, queues and marking for the ports.
"""

from dataclasses import dataclass
from enum import StrEnum

from sluice.policy import controls
from sluice.policy.controls import Control, Need
from sluice.policy.errors import FieldError, guess, shortened
from sluice.policy.schemes.ports import MarkBy
from sluice.policy.schemes.queues import QueueRule
from sluice.policy.units import PACKET_BYTES


class ThresholdRule(StrEnum):
    """The source of a port's demotion thresholds."""

    NONE = "none"
    STATIC = "static"
    """Given in the policy, the same at every port (PIAS)."""
    PERCENTILE = "percentile"
    """Percentiles of the flow sizes that completed at the port in a sliding window (Gutiérrez et al., section 3)."""
    ONLINE = "online"
    """The thresholds with the least mean slowdown for the flows that the port has seen
    (policy/thresholds/online.py)."""

    @property
    def adapts(self) -> bool:
        """Whether a port's thresholds follow its counters."""
        return self in (ThresholdRule.PERCENTILE, ThresholdRule.ONLINE)


class Marking(StrEnum):
    """When a port marks a packet (ECN congestion experienced)."""

    NONE = "none"
    PORT = "port"
    """When a backlog exceeds the marking threshold K: the port's, or by the policy's `mark_by` a queue's."""
    RED = "red"
    """By chance: the probability grows linearly with the port's whole backlog from min to max, and
    is 1 above max."""
    PHANTOM = "phantom"
    """When a phantom queue, which drains more slowly than the link, exceeds its threshold."""


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """A scheme as data. No code outside these values depends on the scheme."""

    name: str
    title: str
    paper: str
    control: Control
    """The congestion control that hosts use."""
    threshold_rule: ThresholdRule = ThresholdRule.NONE
    queue_rule: QueueRule = QueueRule.SINGLE
    marking: Marking = Marking.PORT
    queues: int = 1
    """Default number of queues."""
    thresholds_bytes: tuple[int, ...] = ()
    """Default demotion thresholds, static or initial; their number is queue_rule.demotions(queues)."""
    colour: str
    """Hex colour of the scheme in every plot and page."""
    marks_bytes: tuple[int, ...] = (65 * PACKET_BYTES,)
    """Default marking thresholds: K, or min and max of a ramp, or the phantom queue's. Empty
    without marking."""
    mark_by: MarkBy = MarkBy.PORT
    """By default, the backlog that marks a packet."""
    grows: bool = False
    """By default, a window without marks grows by a part of the marking threshold; otherwise by one packet."""
    tags_deadlines: bool = False
    """Whether deadline flows carry their urgency in the tag instead of their bytes."""
    urgent_after_bytes: int = 0
    """By default, how much a deadline flow sends before its tag carries the urgency."""
    forgets_late: bool = False
    """Whether a flow past its deadline continues as one without a deadline; otherwise it stays the most urgent."""
    tags_sizes: bool = False
    """Whether flows of known size carry their size class in the tag."""
    throughput_factors: tuple[int, ...] = ()
    """Of a scheme whose hosts tag packets with the level that the program chooses, and limit each level (QJUMP): by
    default, one factor for each limited level."""
    flow_queues: bool = False
    """Whether, by default, each flow has a queue of its own inside its priority."""
    least_share: float = 0.0
    """Default share of the link that every queue below the first keeps; 0: strict priorities."""
    urgent_first: bool = False
    """Default of what a full port drops. False: what arrives, as at the switches of the papers."""
    min_flows: int = 5
    """By default, a port adjusts its thresholds if at least this many flows completed in the window."""
    about: str = ""
    """What it is, and what differs from its paper, in sentences. The first one says the most important."""

    @property
    def needs(self) -> frozenset[Need]:
        """The capabilities that every policy of this scheme needs from a fabric."""
        asked = (self.control.needs, self.queue_rule.needs)
        return frozenset(need for need in asked if need is not None)

    @property
    def has_levels(self) -> bool:
        """Whether programs choose the level of their flows."""
        return bool(self.throughput_factors)

    @property
    def congestion_control(self) -> str:
        """TCP_CONGESTION name that agents select, and that records and settings contain."""
        return self.control.kernel_name

    @property
    def simulator_only(self) -> bool:
        """Whether ordinary switches cannot carry out this scheme, with any values of the policy's fields."""
        return bool(self.needs)


TWO_LEVEL_THRESHOLDS_BYTES = (177_828, 2_371_374, 10_000_000)
"""Of the schemes with two-level priority scheduling: the best thresholds of four levels for web search at load 0.8
(thresholds.static.optimal_thresholds). The slides give none."""

TCP = Scheme(
    name="tcp",
    title="TCP",
    paper="RFC 9438 (CUBIC)",
    control=controls.CUBIC,
    marking=Marking.NONE,
    colour="#8c8c8c",
    marks_bytes=(),
    about="Plain TCP: CUBIC into one drop-tail FIFO.",
)

TCP_PRIORITY = Scheme(
    name="tcp-priority",
    title="TCP, priority by class",
    paper="RFC 9438 (CUBIC); IEEE 802.1Q priorities",
    control=controls.CUBIC,
    queue_rule=QueueRule.BY_SIZE,
    marking=Marking.NONE,
    queues=4,
    colour="#bbbbbb",
    marks_bytes=(),
    tags_sizes=True,
    about=(
        "TCP with priorities: CUBIC, and a fixed priority for each class of flows, by the size that the "
        "program declares. This is usual service differentiation: a flow keeps its class from its first "
        "byte to its last. A flow that declares nothing has the lowest class. Here the switches apply the "
        'priority. Priority at the hosts, which gives "a share in proportion" (Zhang et al., Fig. 12), is '
        "scheme `datcp` with `importance_share = 1`."
    ),
)

DCTCP = Scheme(
    name="dctcp",
    title="DCTCP",
    paper="Alizadeh et al., SIGCOMM 2010; RFC 8257",
    control=controls.DCTCP,
    colour="#4477aa",
    about="DCTCP: one FIFO, marked when its backlog exceeds K.",
)

PIAS = Scheme(
    name="pias",
    title="PIAS",
    paper="Bai et al., NSDI 2015",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.MLFQ,
    queues=8,
    # Web search at load 0.8 from the authors' ns-2 scripts, in packets of 1460 B.
    thresholds_bytes=tuple(packets * 1460 for packets in (909, 1329, 1648, 1960, 2143, 2337, 2484)),
    colour="#ccbb44",
    about="PIAS: multi-level feedback queues with fixed demotion thresholds, the same at every port.",
)

MLFQ_ADAPTIVE = Scheme(
    name="mlfq-adaptive",
    title="Adaptive MLFQ",
    paper="Gutiérrez, Barcellos, Branch, DYNA 85(206), 2018",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.PERCENTILE,
    queue_rule=QueueRule.MLFQ,
    queues=2,
    thresholds_bytes=(100_000,),
    colour="#228833",
    urgent_first=True,
    about=(
        "Adaptive MLFQ: every port sets its thresholds from percentiles of the flow sizes that completed "
        "there."
    ),
)

FISH = Scheme(
    name="fish",
    title="FISH",
    paper="Zhang, Hu, flow scheduling policy for burst traffic; Hu et al., INFOCOM 2007 (DQS)",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.MLFQ,
    queues=8,
    thresholds_bytes=PIAS.thresholds_bytes,
    colour="#44aa99",
    flow_queues=True,
    least_share=0.02,
    about=(
        "FISH: PIAS's priorities, with a queue for each flow inside them, and a share of the link for each. "
        "The paper shares the link among the priorities so that no flow starves, and gives no numbers. Here "
        "every priority below the first keeps 2 %, which is 14 % in all. Small flows then take as long as "
        "under strict priorities."
    ),
)

UCP = Scheme(
    name="ucp",
    title="UCP",
    paper="Wang, Xu, Liu, APNet 2017",
    control=controls.UCP,
    colour="#999933",
    about="UCP alone: Aemon's congestion control on the ports of DCTCP, without its scheduling.",
)

D2TCP = Scheme(
    name="d2tcp",
    title="D²TCP",
    paper="Vamanan et al., SIGCOMM 2012",
    control=controls.D2TCP,
    colour="#66ccee",
    about="D2TCP: DCTCP's ports. Flows with a close deadline reduce their windows less on marks.",
)

DATCP = Scheme(
    name="datcp",
    title="DATCP",
    paper="Zhang et al., deadline-aware TCP",
    control=controls.DATCP,
    marking=Marking.RED,
    colour="#aa3377",
    marks_bytes=(80_000, 120_000),
    about=(
        "DATCP: one FIFO that marks by chance between two thresholds. A flow's window depends on its "
        "precedence."
    ),
)

HULL = Scheme(
    name="hull",
    title="HULL, without pacers",
    paper="Alizadeh et al., NSDI 2012",
    control=controls.DCTCP,
    marking=Marking.PHANTOM,
    colour="#ee6677",
    marks_bytes=(4 * PACKET_BYTES,),  # chosen here: a window of a few packets must pass unmarked
    about=(
        "HULL: DCTCP with phantom queues, which mark before a real queue builds up. It lacks HULL's "
        "hardware pacer in the hosts."
    ),
)

KARUNA = Scheme(
    name="karuna",
    title="Karuna",
    paper="Chen, Chen, Bai, Alizadeh, SIGCOMM 2016",
    # A flow without a deadline runs as under DCTCP.
    control=controls.MCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.SIEVE,
    queues=8,
    # One queue fewer than PIAS has.
    thresholds_bytes=PIAS.thresholds_bytes[:-1],
    colour="#ee7733",
    tags_deadlines=True,
    tags_sizes=True,
    about=(
        "Karuna: deadline flows have the first queue and take only the rate that they need; other flows go "
        "by size. A flow of known size has the queue in which it would end if its size were unknown. The "
        "tag has four size classes, and all flows of a class share the queue of its largest. Karuna's aging "
        "of flows that time out is left out."
    ),
)

AEMON = Scheme(
    name="aemon",
    title="Aemon",
    paper="Wang, Xu, Liu, APNet 2017",
    control=controls.UCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.TWO_LEVEL,
    queues=8,
    thresholds_bytes=TWO_LEVEL_THRESHOLDS_BYTES,
    colour="#aa4499",
    tags_deadlines=True,
    about=(
        "Aemon: UCP at the hosts, two-level priority scheduling (2LPS) at the ports. No flow's size is known."
    ),
)

PIAS_UCP = Scheme(
    name="pias+ucp",
    title="PIAS + UCP",
    paper="Wang, Xu, Liu, APNet 2017 (ablation)",
    control=controls.UCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.MLFQ,
    queues=8,
    thresholds_bytes=PIAS.thresholds_bytes,
    colour="#0077bb",
    about="Aemon's congestion control with PIAS's priorities: only hosts know the deadlines.",
)

TWO_LEVEL_DCTCP = Scheme(
    name="2lps+dctcp",
    title="2LPS + DCTCP",
    paper="Wang, Xu, Liu, APNet 2017 (ablation)",
    control=controls.DCTCP,
    threshold_rule=ThresholdRule.STATIC,
    queue_rule=QueueRule.TWO_LEVEL,
    queues=8,
    thresholds_bytes=TWO_LEVEL_THRESHOLDS_BYTES,
    colour="#ffaabb",
    tags_deadlines=True,
    about="Aemon's scheduling without its congestion control.",
)

D3 = Scheme(
    name="d3",
    title="D³",
    paper="Wilson et al., SIGCOMM 2011",
    control=controls.D3,
    marking=Marking.NONE,
    colour="#99ddff",
    marks_bytes=(),
    about=(
        "D³: a deadline flow asks the switches for the rate that it needs, and sends at the rate that they "
        "grant."
    ),
)

PDQ = Scheme(
    name="pdq",
    title="PDQ",
    paper="Hong, Caesar, Godfrey, SIGCOMM 2012",
    control=controls.PDQ,
    marking=Marking.NONE,
    colour="#997700",
    marks_bytes=(),
    about=(
        "PDQ: switches let the flow with the earliest deadline send, or else the shortest one, and the others wait. "
        "A flow that may be quenched ends when it can no longer meet its deadline. There is no rate for flows that a "
        "switch does not list. All sizes are known."
    ),
)

PFABRIC = Scheme(
    name="pfabric",
    title="pFabric",
    paper="Alizadeh et al., SIGCOMM 2013",
    control=controls.PFABRIC,
    queue_rule=QueueRule.SHORTEST_FIRST,
    marking=Marking.NONE,
    colour="#ee3377",
    marks_bytes=(),
    about=(
        "pFabric: every packet carries its flow's remaining bytes, and the fewest go first. The ideal if "
        "all sizes are known."
    ),
)

HOMA = Scheme(
    name="homa",
    title="Homa",
    paper="Montazeri, Li, Alizadeh, Ousterhout, SIGCOMM 2018",
    control=controls.HOMA,
    queue_rule=QueueRule.BY_LEVEL,
    marking=Marking.NONE,
    queues=8,
    colour="#661100",
    marks_bytes=(),
    about=(
        "Homa: a message's first packets leave at once, and its receiver grants the others, each at a priority that "
        "it chooses. All sizes are known. Messages are not answered: FCT ends when the last byte arrives."
    ),
)

QJUMP = Scheme(
    name="qjump",
    title="QJUMP",
    paper="Grosvenor et al., NSDI 2015",
    control=controls.CUBIC,
    queue_rule=QueueRule.BY_LEVEL,
    marking=Marking.NONE,
    queues=8,
    colour="#0000cc",
    marks_bytes=(),
    throughput_factors=(1, 2, 4, 8, 16, 32, 64),
    # The guarantee assumes that frames of lower levels take no room from level 1.
    urgent_first=True,
    about=(
        "QJUMP: a program chooses a level, ports serve the levels by strict priority, and a host limits what it "
        "sends at each level but the last. Level 1 with factor 1 has a bounded latency beside any other traffic. A "
        "flow without a level is at level 8. On the simulator, ACKs have the level of their flow, and count in the "
        "receiver's limit. On hosts, they have the level of the receiving program."
    ),
)

SLUICE = Scheme(
    name="sluice",
    title="Sluice",
    paper="this project; after Bai et al., NSDI 2015 (PIAS), and Wang, Xu, Liu, APNet 2017 (Aemon)",
    control=controls.UCP,
    threshold_rule=ThresholdRule.ONLINE,
    queue_rule=QueueRule.MERGED,
    queues=6,
    # Initial thresholds: good ones for web search at 10 Gb/s (docs/explanation/sluice.md).
    thresholds_bytes=(100_000, 240_000, 750_000, 1_800_000, 10_000_000),
    colour="#cc3311",
    mark_by=MarkBy.QUEUE,
    grows=True,
    tags_deadlines=True,
    # A deadline flow starts as any other flow, because serving a short one first costs the others
    # little.
    urgent_after_bytes=10_000_000,
    # A late flow helps no one by delaying others.
    forgets_late=True,
    tags_sizes=True,
    urgent_first=True,
    min_flows=20,
    about=(
        "Sluice: queues by attained service that mark by their own backlog, and windows that regain the "
        "link quickly. A flow is marked only because of flows at its own level. So it keeps its window "
        "while others are served first, and it uses the link at once when its turn comes. Deadlines and "
        "declared sizes choose a queue among the same levels. Each port computes its thresholds itself "
        "(policy/thresholds/online.py). docs/explanation/sluice.md explains each choice."
    ),
)

_ALL = (
    *(TCP, TCP_PRIORITY, DCTCP, PIAS, MLFQ_ADAPTIVE, FISH, UCP, D2TCP, DATCP, HULL),
    *(KARUNA, AEMON, PIAS_UCP, TWO_LEVEL_DCTCP, D3, PDQ, PFABRIC, HOMA, QJUMP, SLUICE),
)

SCHEMES: dict[str, Scheme] = {scheme.name: scheme for scheme in _ALL}


def scheme_named(name: object) -> Scheme:
    """Return the scheme of that name. Raises FieldError that lists the schemes."""
    scheme = SCHEMES.get(name) if isinstance(name, str) else None
    if name is None:
        raise FieldError("scheme", f"is missing; the schemes are {', '.join(SCHEMES)}")
    if scheme is None:
        shown = shortened(name)
        raise FieldError(
            "scheme", f"{shown} is not a scheme{guess(name, SCHEMES)}; the schemes are {', '.join(SCHEMES)}"
        )
    return scheme
