# SPDX-License-Identifier: Apache-2.0
"""A killed service comes back, and an ended testbed leaves nothing behind."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from sluice import topologies
from sluice.policy.errors import SluiceError
from sluice.policy.schema.desired import PortBehaviour
from sluice.runtime.identity import started
from sluice.runtime.wait import wait_until
from sluice.topologies import measure, ovs, processes
from sluice.topologies.measure import Sender
from sluice.topologies.testbed import Testbed
from tests.kit.bundles import processes_in
from tests.net.conftest import install


@pytest.fixture(scope="module")
def shared(start_testbed: Callable[..., Testbed]) -> Iterator[Testbed]:
    with start_testbed("single", parameters={"hosts": 2}, behaviour=PortBehaviour(30_000)) as bed:
        yield bed


@pytest.fixture
def bed(shared: Testbed) -> Testbed:
    """The testbed with its rules and its first marking, after all failures of earlier tests."""
    install(shared)
    shared.set_marking(30_000)
    wait_until(lambda: all(attached(shared, f"s1-eth{n}") for n in (1, 2)), "the program is attached")
    return shared


DEAD = pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])


def fail(bed: Testbed, service: str, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a service, and wait until the testbed has started it again."""
    restarts = dict(bed.restarts)
    os.kill(bed.pids[service], number)
    bed.wait_restarted(service, restarts[service] + 1)
    assert bed.restarts == restarts | {service: restarts[service] + 1}


def classes(bed: Testbed, interface: str) -> list[str]:
    text = bed.exec(None, ["tc", "class", "show", "dev", interface])
    return sorted(line.split(" burst")[0] for line in text.splitlines())


def attached(bed: Testbed, interface: str) -> bool:
    return "sluice_port" in bed.exec(None, ["tc", "filter", "show", "dev", interface, "egress"])


@DEAD
def test_ovs_vswitchd_dead__queues_program_and_large_sockets_are_back(
    bed: Testbed, number: signal.Signals
) -> None:
    """A stopped process lives but does nothing, as in a deadlock. The testbed kills it."""
    before = classes(bed, "s1-eth1")
    pid = bed.pids["ovs-vswitchd"]
    fail(bed, "ovs-vswitchd", number)
    wait_until(
        lambda: attached(bed, "s1-eth1") and attached(bed, "s1-eth2"), "the program is attached to the ports"
    )
    assert bed.pids["ovs-vswitchd"] != pid
    assert classes(bed, "s1-eth1") == before
    assert ovs.smallest_send_buffer(bed.pids["ovs-vswitchd"]) >= ovs.SEND_BYTES
    install(bed)
    sent = measure.queue_packets(bed, "s1:1")[5]
    measure.transmit(bed, "h1", [Sender("h2", "10.0.0.1", tags=(5,), count=30)])
    assert measure.queue_packets(bed, "s1:1")[5] == sent + 30


@DEAD
def test_port_agent_dead__the_program_stays_and_a_new_agent_takes_over(
    bed: Testbed, number: signal.Signals
) -> None:
    fail(bed, "port-agent", number)
    assert attached(bed, "s1-eth1"), "the attached program does not need the agent"
    bed.set_marking(20_000)
    counted = bed.port_counters("s1:1")[5].packets
    measure.transmit(bed, "h1", [Sender("h2", "10.0.0.1", tags=(5,), count=30)])
    assert bed.port_counters("s1:1")[5].packets == counted + 30, "the new agent's program counts"


def test_ovsdb_server_killed__configuration_is_back(bed: Testbed) -> None:
    fail(bed, "ovsdb-server")
    assert bed.ovs(["ovs-vsctl", "list-ports", "s1"]).split() == ["s1-eth1", "s1-eth2"]
    bed.exec("h1", ["ping", "-c", "1", "-W", "60", "10.0.0.2"])


def test_the_hook_removed__the_agent_attaches_again(bed: Testbed) -> None:
    """Open vSwitch removes the hook when policing of a port is set."""
    began = bed.port_agent_state().attached["s1-eth1"]
    bed.exec(None, ["tc", "qdisc", "del", "dev", "s1-eth1", "clsact"])
    wait_until(lambda: attached(bed, "s1-eth1"), "the program is attached again", interval_s=0.005)
    wait_until(
        lambda: bed.port_agent_state().attached["s1-eth1"] == began + 1,
        "the agent reports the second attachment",
    )


def test_start__a_failure_is_raised_and_nothing_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = topologies.build("single", hosts=2)
    monkeypatch.setattr("sluice.topologies.testbed.Settings.save", lambda self, topology: None)
    with pytest.raises(SluiceError, match=r"(?s)did not start.*testbed\.log"):
        Testbed.start(graph, tmp_path / "bed")
    assert processes_in(tmp_path) == []


@contextmanager
def held(*paths: str) -> Iterator[set[str]]:
    """Yield what the kernel calls these namespaces. While they are open, it gives their numbers to no others."""
    with ExitStack() as files:
        numbers = [files.enter_context(Path(path).open()).fileno() for path in paths]
        yield {str(Path(f"/proc/self/fd/{number}").readlink()) for number in numbers}


def namespaces() -> dict[int, str]:
    """Return the network namespace of each process."""
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            found[int(process.name)] = str((process / "ns/net").readlink())
    return found


def interfaces_of_testbeds() -> list[str]:
    """Return a testbed's interfaces in the root namespace, where there must be none."""
    names = [path.name for path in Path("/sys/class/net").iterdir()]
    return [name for name in names if re.fullmatch(r"[hs]\d+(-eth\d+)?|ovs-(netdev|system)", name)]


def test_start_and_stop_again_and_again_leaves_nothing(tmp_path: Path) -> None:
    """In a folder whose name is longer than the 107 bytes of a Unix socket's, and with a web process that is away."""
    graph = topologies.build("single", hosts=2)
    folder, web = tmp_path / ("long" * 30), f"unix:{tmp_path}/web.sock"
    for round_ in range(2):
        bed = Testbed.start(graph, folder, controller=None, web=web)
        with held(bed.netns, *(bed.host_netns(host.name) for host in graph.hosts)) as spaces:
            assert len(spaces) == 3
            install(bed)
            bed.exec("h1", ["ping", "-c", "1", "-W", "60", "10.0.0.2"])
            bed.set_marking(12_345, 67_890)
            assert bed.port_agent_state().behaviour.mark_bytes == 12_345
            bed.stop()
            bed.stop()
            assert processes_in(tmp_path) == [], round_
            assert spaces.isdisjoint(namespaces().values())
    assert interfaces_of_testbeds() == []


_STARTER = """
import sys, time
from pathlib import Path
from sluice import topologies
from sluice.topologies.testbed import Testbed
bed = Testbed.start(topologies.build("single", hosts=2), Path(sys.argv[1]), controller=None)
bed.spawn("h1", ["sleep", "1234"])
print(bed.netns, *(bed.host_netns(h.name) for h in bed.topology.hosts), flush=True)
bed.exec("h2", ["sleep", "1234"], timeout_s=1000)
"""


def test_the_starter_killed__nothing_is_left(tmp_path: Path) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    run_dir = tmp_path / "bed"
    argv = [sys.executable, "-c", _STARTER, str(run_dir)]
    environment = os.environ | {"TMPDIR": str(temporary)}
    starter = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, env=environment)
    assert starter.stdout is not None
    paths = starter.stdout.readline().split()
    assert len(paths) == 3
    with held(*paths) as spaces:
        wait_until(lambda: in_namespaces(spaces, "sleep 1234") == 2, "both sleepers are in their namespaces")
        os.kill(starter.pid, signal.SIGKILL)
        starter.wait()
        starter.stdout.close()
        wait_until(lambda: processes_in(run_dir) == [], "the testbed's processes are gone")
        wait_until(lambda: spaces.isdisjoint(namespaces().values()), "the testbed's namespaces are gone")
    assert interfaces_of_testbeds() == []
    assert list(temporary.iterdir()) == []


def in_namespaces(spaces: set[str], command: str) -> int:
    pids = [pid for pid, space in namespaces().items() if space in spaces]
    lines = [Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip() for pid in pids]
    return lines.count(command)


def test_orphans_are_reaped(bed: Testbed) -> None:
    """A process whose parent has ended belongs to the testbed's first process."""
    bed.exec(None, ["sh", "-c", "(sleep 0.2 &) ; exit 0"])
    inside = ["nsenter", "--pid", "--mount", "--target", str(bed.pid)]
    subprocess.run([*inside, "sh", "-c", "(sleep 0.2 &) ; exit 0"], check=True)

    def zombies() -> list[int]:
        return [pid for pid in processes.children(bed.pid) if started(pid) is None]

    wait_until(zombies, "the orphan has ended", interval_s=0.005)
    wait_until(lambda: not zombies(), "it is reaped")
