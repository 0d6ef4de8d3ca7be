# SPDX-License-Identifier: Apache-2.0
"""One flow at full speed over a virtual cable between two namespaces, no switch, no shaper.

Throughput with and without Sluice's parts, their share of the CPU time, and how many segments a receiver acknowledges
with one ACK. Each measurement has a process of its own, under `unshare --net`.

The difference in throughput with and without a part is smaller than the difference between two runs. The shares come
from the kernel's own clock for BPF programs, and are steady on a busy machine, too. A control's share is an upper bound
of the loss, because cubic costs something as well. For acknowledgements, both ends count their segments in
/proc/net/snmp: the sender's are data, the receiver's are ACKs.
"""

import json
import resource
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from experiments.bench.measuring import Result, in_own_network, median_ratio
from sluice.dataplane.bench import Ran, kernel_statistics
from sluice.dataplane.congestion import ours, register_congestion_control
from sluice.dataplane.tagger import Tagger
from sluice.dataplane.watch import Watch
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until

SECONDS = 1
THROUGHPUT_ROUNDS = 9
Figures = tuple[float, float]
"""Bits per second, and bits per second of CPU time."""
NEAR, FAR = "10.9.0.1", "10.9.0.2"


@dataclass(frozen=True)
class Throughput:
    """A variant: a congestion control, with or without the tagger and its flow watch on the
    sender's interface."""

    control: str
    tagged: bool = False
    watched: bool = False

    @property
    def label(self) -> str:
        return " + ".join([self.control, *["tagger"] * self.tagged, *["flow watch"] * self.watched])


BASELINE = Throughput("cubic")


def throughput_results() -> Iterator[Result]:
    """Throughput without marks: two namespaces, a virtual cable, one flow, the variants in turn.

    Each variant follows the baseline. The baseline is a variant, too: its ratio to itself shows the noise. The rate
    that iperf reports falls if others use the machine. The rate for each second of CPU time of both ends does not.
    """
    rounds = in_own_network(throughputs, timeout_s=120 + 200 * THROUGHPUT_ROUNDS)
    for figure, (title, unit) in enumerate((("throughput", "Gb/s"), ("throughput per CPU", "Gb/CPU s"))):
        for label, pairs in rounds.items():
            cubic, own = ([side[figure] / 1e9 for side in sides] for sides in zip(*pairs, strict=True))
            medians = statistics.median(own), unit, statistics.median(cubic)
            yield Result(f"{title} {label}", *medians, "cubic", median_ratio(own, cubic))


def throughputs() -> dict[str, list[tuple[Figures, Figures]]]:
    """Return by variant: in each round the figures of the baseline, and the variant's. Rounds start with different
    variants."""
    turns = [Throughput("cubic", tagged, watched) for watched in (False, True) for tagged in (False, True)]
    turns += [Throughput(control) for control in ours()]
    rates: dict[str, list[tuple[Figures, Figures]]] = {variant.label: [] for variant in turns}
    with far_end() as enter, ExitStack() as registered:
        for control in ours():
            registered.enter_context(register_congestion_control(control))
        for number in range(THROUGHPUT_ROUNDS):
            for variant in turns[number % len(turns) :] + turns[: number % len(turns)]:
                rates[variant.label].append((transfer(BASELINE, enter), transfer(variant, enter)))
    return rates


@contextmanager
def far_end() -> Iterator[list[str]]:
    """Make a second namespace at the end of a cable from `near0`. Yields the prefix of commands
    that run in it."""
    far = spawn(["unshare", "--net", "sleep", "infinity"])
    enter = ["nsenter", f"--net=/proc/{far.pid}/ns/net"]
    own = Path("/proc/self/ns/net").readlink()
    wait_until(lambda: Path(f"/proc/{far.pid}/ns/net").readlink() != own, "the far namespace is there")
    run(["ip", "link", "add", "near0", "type", "veth", "peer", "name", "far0", "netns", str(far.pid)])
    for prefix, name, address in (([], "near0", NEAR), (enter, "far0", FAR)):
        run([*prefix, "ip", "link", "set", name, "up"])
        run([*prefix, "ip", "addr", "add", f"{address}/24", "dev", name])
        run([*prefix, "sysctl", "-qw", "net.ipv4.tcp_ecn=1"])
    try:
        yield enter
    finally:
        stop(far)


def transfer(variant: Throughput, enter: list[str]) -> Figures:
    """Run one transfer. Returns bits per second, and bits per second of CPU time."""
    began_s = children_cpu_s()
    server = spawn([*enter, "iperf", "-s", "-Z", variant.control], log_file=Path("/dev/null"))
    client = ["iperf", "-c", FAR, "-Z", variant.control, "-t", str(SECONDS), "-y", "C"]
    try:
        with ExitStack() as parts:
            if variant.watched:
                parts.enter_context(Watch())
            if variant.tagged:
                tagger = parts.enter_context(Tagger())
                tagger.attach("near0")
                parts.callback(tagger.detach, "near0")
            wait_until(lambda: _listens(enter), "the iperf server listens")
            csv = run(client, timeout_s=SECONDS + 20)
    finally:
        stop(server)
    fields = csv.strip().splitlines()[-1].split(",")
    return float(fields[8]), 8 * float(fields[7]) / (children_cpu_s() - began_s)


def children_cpu_s() -> float:
    """Return the CPU time of ended children. The kernel does most work for a packet in the process
    that sends or reads it."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _listens(enter: list[str]) -> bool:
    try:
        return ":5001" in run([*enter, "ss", "-Hltn"])
    except CommandFailed:
        return False


# ── Shares of the CPU time ───────────────────────────────────────────────────────────────────────────


SHARE_ROUNDS = {"tagger": 5, "control": 3}
LINKS = {"segmentation offload": [], "a packet at a time": ["gso_max_segs", "1"]}
"""Name of the link → settings of the sender's interface."""


def tagger_results() -> Iterator[Result]:
    """The tagger's share of the CPU time that both ends of a flow use, by kind of link: the median of the rounds."""
    for link, shares in in_own_network(tagger_shares).items():
        yield Result(f"tagger, share of a flow's CPU time, {link}", 100 * statistics.median(shares), "%")


def tagger_shares() -> dict[str, list[float]]:
    with kernel_statistics(), far_end() as enter, Tagger() as tagger:
        tagger.attach("near0")
        return {
            link: _shares(BASELINE, enter, lambda: Ran.of(tagger.program).ns, SHARE_ROUNDS["tagger"])
            for link in _links()
        }


def control_share_results() -> Iterator[Result]:
    """The share of each congestion control, in the same way.

    Raises EnvironmentLacking if another process has registered a control, because its use could not be told apart.
    """
    try:
        measured = in_own_network(control_shares, timeout_s=600)
    except CommandFailed as error:
        raise EnvironmentLacking(f"the cost of congestion controls: {error.output.strip()}") from error
    for what, shares in measured.items():
        yield Result(f"{what}, share of a flow's CPU time", 100 * statistics.median(shares), "%")


def control_shares() -> dict[str, list[float]]:
    with kernel_statistics(), far_end() as enter:
        return {f"{control}, {link}": _shares_of(control, enter) for link in _links() for control in ours()}


def _shares_of(control: str, enter: list[str]) -> list[float]:
    others = _programs()  # those that were there before the control

    def ran_ns() -> int:
        return sum(ran_ns for number, ran_ns in _programs().items() if number not in others)

    with register_congestion_control(control) as registered:
        if not registered.owned:
            raise SystemExit(f"{control} belongs to another process: stop the agents of this machine first")
        return _shares(Throughput(control), enter, ran_ns, SHARE_ROUNDS["control"])


def _links() -> Iterator[str]:
    """Yield each kind of link, with the sender's interface set to it."""
    for link, settings in LINKS.items():
        if settings:
            run(["ip", "link", "set", "near0", *settings])
        yield link


def _shares(variant: Throughput, enter: list[str], ran_ns: Callable[[], int], rounds: int) -> list[float]:
    """Return in each round the share (0 … 1) of the CPU time of a transfer that programs ran."""
    shares = []
    for _ in range(rounds):
        ran_before_ns, cpu_before_s = ran_ns(), children_cpu_s()
        transfer(variant, enter)
        ran_s = (ran_ns() - ran_before_ns) / 1e9
        shares.append(ran_s / (children_cpu_s() - cpu_before_s))
    return shares


def _programs() -> dict[int, int]:
    """Return the run time in ns of each function of a congestion control, by its kernel id."""
    programs = json.loads(run(["bpftool", "--json", "prog", "show"]))
    return {
        program["id"]: program.get("run_time_ns", 0)
        for program in programs
        if program.get("type") == "struct_ops"
    }


# ── Acknowledgements ─────────────────────────────────────────────────────────────────────────────────


_SHAPED = "qdisc replace dev near0 root handle 1: htb default 1\n"
_CLASS = "class replace dev near0 parent 1: classid 1:1 htb rate 100mbit burst 3100 cburst 3100\n"
_SHORT = "qdisc replace dev near0 parent 1:1 pfifo limit 20\n"


@dataclass(frozen=True)
class Case:
    """One receiver and its link."""

    name: str
    bursts: bool = False
    """The receiver gets bursts as the sender made them, as from a card that joins packets by itself (LRO)."""
    gro: bool = False
    """The receiver joins the packets that wait together (GRO)."""
    shaped: bool = False
    """The link has 100 Mb/s, so that packets come one by one."""
    lossy: bool = False
    """The queue of the link is short, so that packets are lost."""
    quick: bool = False
    """The route has quickack, which switches delayed ACKs off."""
    compressed: bool = True
    """ACKs of packets after a lost one are compressed (tcp_comp_sack_nr, on by default)."""


CASES = (
    Case("packets one by one", shaped=True),
    Case("packets one by one, GRO", gro=True, shaped=True),
    Case("packets one by one, quickack", shaped=True, quick=True),
    Case("packets one by one, with losses", shaped=True, lossy=True),
    Case("packets one by one, with losses, tcp_comp_sack_nr = 0", shaped=True, lossy=True, compressed=False),
    Case("full speed"),
    Case("full speed, GRO", gro=True),
    Case("full speed, bursts of 64 KB", bursts=True),
)


def ack_results() -> Iterator[Result]:
    for case, segments in in_own_network(segments_by_case).items():
        yield Result(f"segments for each ACK, {case}", segments, "segments")


def segments_by_case() -> dict[str, float]:
    segments_per_ack = {}
    for case in CASES:
        with far_end() as enter:
            _arrange(case, enter)
            sent, acked = _segments([]), _segments(enter)
            transfer(BASELINE, enter)
            segments_per_ack[case.name] = (_segments([]) - sent) / (_segments(enter) - acked)
            run(["ip", "link", "del", "near0"])
    return segments_per_ack


def _arrange(case: Case, enter: list[str]) -> None:
    bursts = "on" if case.bursts else "off"
    for prefix, name in (([], "near0"), (enter, "far0")):
        run([*prefix, "ethtool", "-K", name, "tso", bursts, "gso", bursts, "tx", bursts, "gro", "off"])
    if not case.bursts:
        run(["ip", "link", "set", "near0", "gso_max_segs", "1"])
    if case.gro:
        run([*enter, "ethtool", "-K", "far0", "gro", "on"])
    if case.quick:
        network = ".".join(FAR.split(".")[:3]) + ".0/24"
        run([*enter, "ip", "route", "replace", network, "dev", "far0", "quickack", "1"])
    if not case.compressed:
        run([*enter, "sysctl", "-qw", "net.ipv4.tcp_comp_sack_nr=0"])
    if case.shaped:
        run(["tc", "-batch", "-"], stdin=_SHAPED + _CLASS + (_SHORT if case.lossy else ""))


def _segments(enter: list[str]) -> int:
    """Return how many segments a namespace has sent, without retransmissions."""
    text = run([*enter, "cat", "/proc/net/snmp"]) if enter else Path("/proc/net/snmp").read_text()
    names, values = (line.split() for line in text.splitlines() if line.startswith("Tcp:"))
    return int(values[names.index("OutSegs")])
