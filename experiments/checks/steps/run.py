# SPDX-License-Identifier: Apache-2.0
"""The longest pause of a steady stream while Sluice comes into a network, acts there, and is removed.

The network is that of `two-racks`: two Open vSwitch machines that forward by themselves. In one place they get the
rules of Sluice, in the other they keep their own forwarding.
"""

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from experiments.kit import live
from experiments.kit.experiment import Claim, Experiment, Given, Script, markdown_table, option, some_of
from sluice.commands.arguments import at_least_one
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.runs.files import need_root
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.process import SWITCH_NICE, allowed_priority, raised, spawn, stop
from sluice.runtime.wait import wait_until
from sluice.terminal import console
from tests.deploy import datagrams
from tests.deploy.racks import ADDRESSES, BRIDGES, Racks

HERE = Path(__file__).parent
PIPELINE, LEFT = PLACES = ("pipeline", "left")
SOURCE, TO = "web1", "db1"
PATH = (("rack1", "nic-web1"), ("rack1", "tor1"), ("rack2", "tor2"), ("rack2", "nic-db1"))
"""The ports with a policy between them. The last one is the canary's, of this id in the network:"""
CANARY = {PIPELINE: "br-back:1", LEFT: "rack2:1"}
AGENTS: Mapping[str, Mapping[str, Sequence[str]]] = {
    PIPELINE: {host: (host, "--interface", "eth0") for host in (SOURCE, TO)},
    LEFT: {"guests": ("rack1", "--interface", "mgmt", "--guests", "nic-web*")},
}
"""Name of a host agent → its machine and its settings."""
SETTLES_S = 2.0
"""After a step is done. What it starts may go on."""
MOST_MS = 50
Steps = Iterator[tuple[str, Callable[[], Any]]]


@dataclass(frozen=True)
class Step:
    name: str
    pause_ms: float
    """The longest time in which datagrams were sent and none arrived."""
    lasted_s: float


@dataclass(frozen=True)
class Outcome:
    rounds: Mapping[str, Sequence[Sequence[Step]]]
    """By place: the steps of each round."""
    left: list[str]


# -- the steps


def act(bed: Racks, *words: str, at: Sequence[tuple[str, str]] = ()) -> None:
    """Give a command of `sluice policy`, and wait until the policy acts at these ports of the stream's path alone."""
    bed.told("policy", *words)
    wait_until(
        lambda: all(bed.has_queues(*port) == (port in at) for port in PATH),
        "the policy acts where it should",
    )


def steps(bed: Racks, place: str) -> Steps:
    """Yield the steps: those of docs/deploying/two-racks.md if the switches get the rules of Sluice."""
    agents, canary = AGENTS[place], CANARY[place]

    def connect() -> None:
        bed.connect_switches()
        wait_until(lambda: 'to = "br-back:tor2"' in bed.sluice("network", "discover")[1], "the link is found")

    def describe() -> None:
        if place == LEFT:
            bed.told("network", "apply", str(HERE / "left.toml"))
            return
        file = bed.folder / "network.toml"
        file.write_text(bed.told("network", "discover").replace("10Gbit", "50Mbit"))
        bed.sluice("network", "apply", str(file))
        for rack, bridge in BRIDGES.items():
            bed.vsctl(rack, "set-fail-mode", bridge, "secure")

    def start_agents() -> None:
        for rack in BRIDGES:
            bed.start_port_agent(rack, name=rack)
        for name, (machine, *words) in agents.items():
            bed.start_agent(name, machine, *words)
        bed.wait_agents(*BRIDGES, *agents)

    def change_scheme() -> None:
        bed.put_policy({"scheme": "sluice", "acts_at": ["*"], "acts_on": ["*"]})
        wait_until(lambda: all(bed.has_queues(*port) for port in PATH), "the policy acts")

    def go_back() -> None:
        bed.told("policy", "rollback")
        act(bed, "rollback", at=PATH[-1:])

    def restart() -> None:
        bed.stop("controller")
        bed.start_controller()
        wait_until(lambda: not bed.problems(), "the new controller has found all as it was")

    def remove() -> None:
        bed.told("network", "remove")
        for name in agents:
            bed.stop(name)
        for rack, bridge in BRIDGES.items():
            bed.release_ports(rack)
            if place == PIPELINE:
                bed.vsctl(rack, "set-fail-mode", bridge, "standalone", "--", "del-controller", bridge)

    if place == PIPELINE:
        yield "the switches get their controller", connect
    yield "the network's description", describe
    yield "agents start", start_agents
    bed.put_policy({"scheme": "pias"})
    yield "a canary: one port", lambda: act(bed, "act", "--at", canary, "--on", "*", at=PATH[-1:])
    yield "the policy acts everywhere", lambda: act(bed, "act", "--at", "*", at=PATH)
    yield "the scheme changes", change_scheme
    yield "rollback, to the canary", go_back
    yield "the policy acts nowhere", lambda: act(bed, "act", "--nowhere")
    if place == PIPELINE:
        yield "the controller starts again", restart
    yield "removal", remove


# -- the stream


def longest_pause_s(lines: Sequence[str], since_at: float) -> float:
    """Return the longest pause of what arrived since then (epoch, s), from lines of datagrams.py."""
    pauses = [float(pause) for arrived, pause in map(str.split, lines) if float(arrived) >= since_at]
    if not pauses:
        raise SluiceError("nothing of the stream arrived during a step")
    return max(pauses)


def measure_place(place: str) -> list[Step]:
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder, ExitStack() as ends:
        bed = Racks(Path(folder))
        ends.callback(bed.down)
        bed.up()
        for rack in BRIDGES:
            with suppress(CommandFailed):  # where real time is not allowed
                run(["chrt", "--rr", "--pid", "1", (bed.folder / rack / "vswitchd.pid").read_text().strip()])
        bed.start_hub()
        wait_until(bed.network, "the web process answers")
        wait_until(partial(bed.reaches, SOURCE, TO), "the switches forward")
        log = bed.folder / "stream.log"
        for machine, words in ((TO, ("hear",)), (SOURCE, ("send", ADDRESSES[TO]))):
            argv = [
                "ip",
                "netns",
                "exec",
                bed.namespace(machine),
                "/usr/bin/python3",
                datagrams.__file__,
                *words,
            ]
            ends.callback(stop, spawn(raised(argv, allowed_priority(), SWITCH_NICE), log_file=log))
        wait_until(log.read_text, "the stream arrives")
        taken = [measure_step(log, "nothing", lambda: time.sleep(SETTLES_S))]
        return taken + [measure_step(log, *step) for step in steps(bed, place)]


def measure_step(log: Path, name: str, act: Callable[[], Any]) -> Step:
    began_at = time.time()
    act()
    lasted_s = time.time() - began_at
    time.sleep(SETTLES_S)
    whole = log.read_text().rpartition("\n")[0].splitlines()
    step = Step(name, 1000 * longest_pause_s(whole, began_at), lasted_s)
    console.print(f"{step.pause_ms:7.1f} ms  {name} ({lasted_s:.1f} s)")
    return step


def measure(given: Given) -> Outcome:
    need_root()
    machine = live.Machine.look()
    rounds = {place: [measure_place(place) for _ in range(given["rounds"])] for place in given["places"]}
    return Outcome(rounds, live.left_over(machine))


# -- the verdict


def claims(outcome: Outcome) -> list[Claim]:
    found = []
    for place, rounds in outcome.rounds.items():
        worst = max((step for steps in rounds for step in steps), key=lambda step: step.pause_ms)
        measured = f"{worst.pause_ms:.0f} ms ({worst.name})"
        found.append(Claim(f"{place}: longest pause", f"{MOST_MS} ms", measured, worst.pause_ms <= MOST_MS))
    return [*found, live.nothing_left(outcome.left)]


def numbers(outcome: Outcome) -> dict[str, Any]:
    return {
        place: [[asdict(step) for step in steps] for steps in rounds]
        for place, rounds in outcome.rounds.items()
    }


def table(outcome: Outcome) -> str:
    rows = [
        (place, steps[0].name, ", ".join(f"{step.pause_ms:.0f}" for step in steps))
        for place, rounds in outcome.rounds.items()
        for steps in zip(*rounds, strict=True)
    ]
    return markdown_table(("place", "step", "longest pause of each round (ms)"), rows, " --- ")


EXPERIMENT = Experiment(
    claim="A network's traffic never pauses for more than 50 ms while Sluice comes, acts and goes.",
    minutes=6,
    runner=Script(measure),
    on=(TESTBED,),
    options=(
        some_of("--places", PLACES, "switches with Sluice's rules, or with their own forwarding"),
        option("--rounds", "rounds through all steps", type=at_least_one, default=3),
    ),
    quick={"rounds": 1},
    claims=claims,
    numbers=numbers,
    table=table,
)
