# SPDX-License-Identifier: Apache-2.0
"""Small flows beside two elephants into one port: what schemes give hosts, containers and a virtual machine.

The hosts are those of the testbed. Containers and the virtual machine are in two racks, which scripts make without a
line of Sluice. There the switches forward by themselves, and Sluice gives their ports queues.
"""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from sqlalchemy import Engine

from experiments.kit import live
from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table, option, some_of
from experiments.kit.runs import difference
from sluice.commands.arguments import at_least_one, seconds
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.policy.figures.validity import flaws
from sluice.policy.wire.agents import PortHeartbeat, SimulatorHeartbeat
from sluice.runs.files import need_root, read_document
from sluice.runtime.command import run
from sluice.runtime.http_client import Answer
from sluice.runtime.process import spawn, stop
from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from sluice.store.observed import all_agents
from tests.deploy.racks import ROOT, Racks
from tests.deploy.racks import SCRIPT as TWO_RACKS

HERE, PACKAGES = Path(__file__).parent, ROOT / "build/packages"
HOSTS, CONTAINERS, OVN, GUEST = PLACES = ("hosts", "containers", "ovn", "guest")
RATE_BPS = 2_500_000
"""Of the port to the receiver, and of each sender's link."""
PLAIN = "plain"
POLICIES: Mapping[str, Mapping[str, Any]] = read_document(HERE / "policies.toml")
AGREES, LEAST_TAGGED, LEAST_CARRIED = 0.1, 0.99, 0.9
SETTLE_S, ELEPHANT_S = 10.0, 200.0
"""After all agents apply a policy; and the longest time that a connection from before may take. It has no tag, so it is
in the last queue, and may be silent for seconds."""
BOOT_S = 900.0
MACHINES_CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
"""Containers inherit it. Hosts of the testbed have Reno before a policy acts on them, so these have it, too."""


@dataclass(frozen=True)
class Block:
    """What one policy gave in one round. Shares: of TCP packets at the receiver, those with a DSCP; of the port's rate,
    what arrived (two elephants hardly ever leave it idle); of the CPU, the busy part. And why it is not valid."""

    scheme: str
    fct_ms: Sequence[float]
    tagged: float
    carried: float
    busy: float
    reasons: Sequence[str]


@dataclass(frozen=True)
class Outcome:
    blocks: Mapping[str, Sequence[Block]]
    """By place, in the order of time."""
    left: list[str]

    def of(self, place: str, scheme: str) -> list[Block]:
        return [block for block in self.blocks[place] if block.scheme == scheme]

    def gains(self, place: str, scheme: str) -> list[float]:
        """Return plain's mean FCT over the scheme's, by round."""
        pairs = zip(self.of(place, PLAIN), self.of(place, scheme), strict=True)
        return [fmean(plain.fct_ms) / fmean(block.fct_ms) for plain, block in pairs]


# -- the places

Place = tuple[Engine, Callable[[Mapping[str, Any]], Answer], Path]
"""Something that runs the flows: its store, what puts a policy in force there, and the file of the receiver."""


@contextmanager
def hosts(out: Path) -> Iterator[Place]:
    """The product's own testbed, with an agent on each host."""
    scenario, rng = read_document(HERE / "hosts.toml"), np.random.default_rng(1)
    with live.running(scenario, rng, out) as (stack, _), ExitStack() as ends:
        stack.start_agents([])
        to, names = stack.topology.host_by_name["h4"], ("h1", "h2", "h3", "h4")
        sink = traffic(stack.testbed.spawn, ends, names, to.ipv4, to.interface, out)
        yield stack.engine, stack.put_policy, sink


@contextmanager
def racks(place: str, out: Path, packages: Path | None) -> Iterator[Place]:
    """Containers behind bonds with VLANs, the same with a virtual machine as the first sender, or containers of OVN.

    `packages`: as in Racks.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder, ExitStack() as ends:
        bed = Racks(Path(folder), packages=packages)
        network, net, prefix = HERE / "containers", "10.10.0", "c-"
        if place == OVN:
            network, net, prefix = TWO_RACKS.with_name("ovn"), "10.9.0", ""
        names = [f"{prefix}{name}" for name in ("web1", "web2", "web3", "db1")]

        def start(name: str, argv: Sequence[str], log_file: Path) -> Any:
            inside = ["ip", "netns", "exec", bed.namespace(name)]
            if place == GUEST and name == names[0]:
                inside = [str(HERE / "containers"), "boot", folder, str(out.resolve() / "guest")]
            return spawn([*inside, *argv], log_file=log_file, env=bed.environment)

        ends.callback(MACHINES_CONTROL.write_text, MACHINES_CONTROL.read_text())
        MACHINES_CONTROL.write_text("reno")
        ends.callback(bed.down)
        ends.callback(bed.change, network, "down")
        ends.callback(lambda: [shutil.copy(log, out) for log in bed.folder.glob("*.log")])
        bed.up()
        bed.change(network, "up")
        if place != CONTAINERS:
            bed.change(HERE / "containers", place)
        bed.start_left(HERE / f"{network.name}.toml", POLICIES[PLAIN])
        # All containers share this kernel, so the agent of the machine's first namespace serves them.
        bed.start_agent("containers", None, "--interface", "lo")
        if place == GUEST:
            bed.start_agent("guests", "web1", "--interface", "mgmt", "--guests", "tap*")
        engine = open_store(bed.store)
        ends.callback(engine.dispose)
        yield engine, bed.put_policy, traffic(start, ends, names, f"{net}.21", "eth0", out)


# -- the flows


def traffic(
    start: Callable[..., Any], ends: ExitStack, names: Sequence[str], to: str, interface: str, out: Path
) -> Path:
    """Start the receiver (the last name), and the senders of elephants and of small flows. Return what it writes."""
    sink = out / "sink.jsonl"
    roles = (("small", to), ("elephant", to), ("elephant", to), ("sink", interface))
    for name, words in reversed(list(zip(names, roles, strict=True))):
        log_file = sink if words[0] == "sink" else out / f"{name}.log"
        ends.callback(
            stop, start(name, ["/usr/bin/python3", str(HERE / "traffic.py"), *words], log_file=log_file)
        )
        wait_until(lambda: lines(sink, "packets"), "the receiver listens")
    wait_until(lambda: lines(sink, "previous_s"), "the first small flow has arrived", timeout_s=BOOT_S)
    return sink


def lines(sink: Path, key: str, since_at: float = 0) -> list[dict[str, float]]:
    """Return what the receiver has written with this key since then."""
    whole = sink.read_text().rpartition("\n")[0].splitlines()
    return [line for text in whole if key in (line := json.loads(text)) and line["at"] >= since_at]


def arrived(sink: Path, since_at: float) -> tuple[float, float]:
    """Return the part of the packets that had a tag, and the part of the port's rate that arrived."""
    seen = lines(sink, "packets", since_at)
    packets, tagged, size, took_s = (
        seen[-1][key] - seen[0][key] for key in ("packets", "tagged", "bytes", "at")
    )
    return tagged / max(1, packets), 8 * size / max(1, took_s) / RATE_BPS


def all_are_new(sink: Path, since_at: float) -> bool:
    """Whether each sender has begun a connection since then. It has one at a time."""
    begun, ever = ({line["sender"] for line in lines(sink, "sender", at)} for at in (since_at, 0))
    return begun == ever


def put_in_force(place: Place, scheme: str) -> None:
    """Put a policy in force while flows go on, and wait until all agents apply it."""
    engine, put, _ = place
    answer = put(POLICIES[scheme])
    if not answer.ok:
        raise SluiceError(f"scheme {scheme} was refused: {answer.body.decode(errors='replace')}")
    version = answer.json()["version"]

    def applied() -> bool:
        beats = (agent.heartbeat for agent in all_agents(engine))
        return all(
            beat.policy_version >= version for beat in beats if not isinstance(beat, SimulatorHeartbeat)
        )

    wait_until(applied, f"all agents apply {scheme}")


def measure_block(place: Place, scheme: str, measure_s: float) -> Block:
    """Put a policy in force, and measure once it is in use everywhere."""
    engine, _, sink = place
    put_in_force(place, scheme)
    applied_at = time.time()
    time.sleep(SETTLE_S)
    wait_until(lambda: all_are_new(sink, applied_at), "no connection is from before", timeout_s=ELEPHANT_S)
    began_at = time.time()
    time.sleep(measure_s)
    tagged, carried = arrived(sink, began_at)
    flows = lines(sink, "previous_s", began_at)[1:]  # a flow says how long the one before took
    if not flows:
        raise SluiceError(f"no small flow ended under {scheme}; see the logs in {sink.parent}")
    ports = [
        (row.name, row.heartbeat) for row in all_agents(engine) if isinstance(row.heartbeat, PortHeartbeat)
    ]
    statuses = {name: beat.machine for name, beat in ports if beat.machine}
    reasons = [flaw.problem for name, status in statuses.items() for flaw in flaws(status, name)]
    reasons += [] if carried >= LEAST_CARRIED else [f"the port carried {carried:.0%} of its rate"]
    busy = max(status.cpu_busy for status in statuses.values())
    return Block(scheme, [1000 * flow["previous_s"] for flow in flows], tagged, carried, busy, reasons)


def unpacked(folder: Path) -> Path:
    """Unpack the packages into a folder, as their installation does below /. Return it."""
    packages = sorted(PACKAGES.glob("sluice-*.deb"))
    if not packages:
        raise SluiceError(f"there are no packages in {PACKAGES}: make packages")
    shutil.rmtree(folder, ignore_errors=True)
    for package in packages:
        run(["dpkg-deb", "--extract", str(package), str(folder)])
    return folder


def measure(given: Given) -> Outcome:
    need_root()
    packages = unpacked(given.out / "packages") if given["packages"] else None
    machine, blocks = live.Machine.look(), {}
    for name in given["places"]:
        out = given.out / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        schemes = [scheme for _ in range(given["rounds"]) for scheme in POLICIES]
        with hosts(out) if name == HOSTS else racks(name, out, packages) as place:
            blocks[name] = [measure_block(place, scheme, given["seconds"]) for scheme in schemes]
    return Outcome(blocks, live.left_over(machine))


# -- the verdict


def claims(outcome: Outcome) -> list[Claim]:
    compared = []
    for place in outcome.blocks.keys() - {HOSTS} if HOSTS in outcome.blocks else ():
        for scheme in POLICIES.keys() - {PLAIN}:
            change = difference(outcome.gains(place, scheme), outcome.gains(HOSTS, scheme))
            what = f"{place}: gain under {scheme}, from that of hosts"
            compared.append(Claim(what, f"± {AGREES:.0%}", str(change), abs(change.mean) <= AGREES))
    every = [block for blocks in outcome.blocks.values() for block in blocks]
    tagged = min(block.tagged for block in every if block.scheme != PLAIN)
    reasons = "; ".join(dict.fromkeys(reason for block in every for reason in block.reasons))
    return [
        *sorted(compared, key=lambda claim: claim.what),
        Claim("packets with a tag", f"{LEAST_TAGGED:.0%}", f"{tagged:.2%}", tagged >= LEAST_TAGGED),
        Claim("measurements that are valid", "all", reasons or "all", not reasons),
        live.nothing_left(outcome.left),
    ]


def numbers(outcome: Outcome) -> dict[str, Any]:
    return {place: [vars(block) for block in blocks] for place, blocks in outcome.blocks.items()}


def table(outcome: Outcome) -> str:
    rows = []
    for place in outcome.blocks:
        for scheme in POLICIES:
            blocks, gains = outcome.of(place, scheme), outcome.gains(place, scheme)
            p99_ms = np.percentile([ms for block in blocks for ms in block.fct_ms], 99)
            fcts = (f"{fmean(fmean(block.fct_ms) for block in blocks):.0f} ms", f"{p99_ms:.0f} ms")
            ours = (
                "–" if HOSTS not in outcome.blocks else str(difference(gains, outcome.gains(HOSTS, scheme)))
            )
            shares = (
                fmean(getattr(block, what) for block in blocks) for what in ("tagged", "carried", "busy")
            )
            gain = (f"{fmean(gains):.2f}", ours if place != HOSTS and scheme != PLAIN else "–")
            rows.append((place, scheme, *fcts, *gain, *(f"{share:.0%}" for share in shares)))
    columns = ("place", "policy", "mean", "p99", "gain", "from hosts' gain", "tagged", "link used", "CPU")
    return markdown_table(columns, rows, " --- ")


EXPERIMENT = Experiment(
    claim="Small flows of containers and of a virtual machine gain from Sluice as those of testbed hosts do.",
    minutes=70,
    runner=Script(measure),
    on=(TESTBED,),
    options=(
        some_of("--places", PLACES, "where the flows run; a comparison needs hosts"),
        option("--rounds", "rounds through the policies", type=at_least_one, default=8),
        option("--seconds", "seconds of each measurement", type=seconds, default=20.0),
        option("--packages", "racks run the programs of `make packages`", action="store_true"),
    ),
    quick={"rounds": 2, "seconds": 8.0},
    claims=claims,
    numbers=numbers,
    table=table,
)
