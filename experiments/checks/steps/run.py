# SPDX-License-Identifier: Apache-2.0
"""The longest pause of a steady stream while Sluice comes into a network, acts there, and is removed.

The network is that of `two-racks`: two Open vSwitch machines that forward by themselves. In one place they get the
rules of Sluice, in the other they keep their own forwarding.
"""

import os
import re
import sys
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
from tests.deploy.racks import ADDRESSES, BRIDGES, Racks

STREAM = Path(__file__).with_name("stream.py")
PIPELINE, LEFT = PLACES = ("pipeline", "left")
SOURCE, TO = "web1", "db1"
SETTLES_S = 2.0
"""After a step is done. What it starts may go on."""
MOST_MS = 50
PORT_TO = ("rack2", "nic-db1")
"""The canary's port: the last one of the stream's path."""
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


def told(bed: Racks, *words: str) -> str:
    """Give a command of `sluice`, which must succeed, and return what it says."""
    code, text = bed.sluice(*words)
    if code:
        raise SluiceError(f"sluice {' '.join(words)}: {text}")
    return text


def queues_at(bed: Racks, *wanted: tuple[str, str], but: Sequence[tuple[str, str]] = ()) -> None:
    def as_wanted() -> bool:
        return all(bed.has_queues(*port) for port in wanted) and not any(
            bed.has_queues(*port) for port in but
        )

    wait_until(as_wanted, "the policy acts where it should")


def policy_steps(bed: Racks, canary: str) -> Steps:
    """Yield the steps of a policy. `canary`: the id of PORT_TO in the network."""
    path = (("rack1", "nic-web1"), ("rack1", "tor1"), ("rack2", "tor2"), PORT_TO)

    def act(*words: str, at: Sequence[tuple[str, str]] = ()) -> None:
        told(bed, "policy", *words)
        queues_at(bed, *at, but=[port for port in path if port not in at])

    def set_scheme(scheme: str) -> None:
        bed.put_policy({"scheme": scheme, "acts_at": ["*"], "acts_on": ["*"]})
        queues_at(bed, *path)

    def go_back() -> None:
        told(bed, "policy", "rollback")
        act("rollback", at=[PORT_TO])

    yield "a canary: one port, one host", lambda: act("act", "--at", canary, "--on", "*", at=[PORT_TO])
    yield "the policy acts everywhere", lambda: act("act", "--at", "*", at=path)
    yield "the scheme changes", lambda: set_scheme("sluice")
    yield "rollback, to the canary", go_back
    yield "the policy acts nowhere", lambda: act("act", "--nowhere")


def agents_up(bed: Racks, *names: str) -> None:
    def up() -> bool:
        alive = {agent["name"] for agent in bed.answer("health")["agents"] if agent["alive"]}
        return alive >= set(names)

    wait_until(up, f"{', '.join(names)} report")


def pipeline(bed: Racks) -> Steps:
    """Yield the steps of switches that get the rules of Sluice, as docs/deploying/two-racks.md has them."""
    file = bed.folder / "network.toml"

    def connect() -> None:
        bed.connect_switches()
        wait_until(lambda: 'to = "br-back:tor2"' in bed.sluice("network", "discover")[1], "the link is found")

    def describe() -> None:
        file.write_text(re.sub("10Gbit", "50Mbit", told(bed, "network", "discover")))
        bed.sluice("network", "apply", str(file))
        for rack, bridge in BRIDGES.items():
            bed.vsctl(rack, "set-fail-mode", bridge, "secure")

    def start_agents() -> None:
        for rack in BRIDGES:
            bed.start_port_agent(rack, name=rack)
        for host in (SOURCE, TO):
            bed.start_agent(host, host, "--interface", "eth0")
        agents_up(bed, *BRIDGES, SOURCE, TO)

    def restart() -> None:
        bed.stop("controller")
        bed.start_controller()
        wait_until(lambda: not bed.problems(), "the new controller has found all as it was")

    def remove() -> None:
        told(bed, "network", "remove")
        for host in (SOURCE, TO):
            bed.stop(host)
        for rack, bridge in BRIDGES.items():
            release(bed, rack)
            bed.vsctl(rack, "set-fail-mode", bridge, "standalone", "--", "del-controller", bridge)

    yield "the switches get their controller", connect
    yield "the network's description", describe
    yield "agents start", start_agents
    bed.put_policy({"scheme": "pias"})
    yield from policy_steps(bed, "br-back:1")
    yield "the controller starts again", restart
    yield "removal", remove


def left(bed: Racks) -> Steps:
    """Yield the steps of switches that keep their forwarding. The first rack's servers are guests of its machine."""
    file = bed.folder / "network.toml"
    ports = {"rack1": ("nic-web1", "nic-web2", "nic-web3", "tor1"), "rack2": ("nic-db1", "tor2")}
    tables = [
        f'[[switch]]\nname = "{rack}"\nforwarding = "leave"\nport = ['
        + ", ".join(f'{{ name = "{port}", rate = "50Mbit" }}' for port in names)
        + "]\n"
        for rack, names in ports.items()
    ]

    def describe() -> None:
        file.write_text("".join(tables))
        told(bed, "network", "apply", str(file))

    def start_agents() -> None:
        for rack in BRIDGES:
            bed.start_port_agent(rack, name=rack)
        bed.start_agent("guests", "rack1", "--interface", "mgmt", "--guests", "nic-web*")
        agents_up(bed, *BRIDGES, "guests")

    def remove() -> None:
        told(bed, "network", "remove")
        bed.stop("guests")
        for rack in BRIDGES:
            release(bed, rack)

    yield "the network's description", describe
    yield "agents start", start_agents
    bed.put_policy({"scheme": "pias"})
    yield from policy_steps(bed, "rack2:1")
    yield "removal", remove


def release(bed: Racks, rack: str) -> None:
    """End the port agent of a rack and let it give the ports back."""
    bed.stop(rack)
    where = ("--run-dir", str(bed.folder / rack), "--database", f"unix:{bed.folder}/{rack}/db.sock")
    argv = [sys.executable, "-m", "sluice", "port-agent", "--config", os.devnull, "--release", *where]
    bed.inside(rack, argv, timeout_s=120)


# -- the stream


def longest_pause_s(lines: Sequence[str], since_at: float) -> float:
    """Return the longest pause of what arrived since then (epoch, s), from lines of stream.py."""
    pauses = [float(pause) for arrived, pause in map(str.split, lines) if float(arrived) >= since_at]
    if not pauses:
        raise SluiceError("nothing of the stream arrived during a step")
    return max(pauses)


def measure_place(place: str) -> list[Step]:
    steps = {PIPELINE: pipeline, LEFT: left}[place]
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
            argv = ["ip", "netns", "exec", bed.namespace(machine), "/usr/bin/python3", str(STREAM), *words]
            ends.callback(stop, spawn(raised(argv, allowed_priority(), SWITCH_NICE), log_file=log))
        wait_until(log.read_text, "the stream arrives")
        taken = [measure_step(log, "nothing", lambda: time.sleep(SETTLES_S))]
        return taken + [measure_step(log, *step) for step in steps(bed)]


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
