# SPDX-License-Identifier: Apache-2.0
"""The cost of the data plane for packets, connections and socket options of a host, and for a hop of the switch.

- **Programs**: what the kernel measures of each BPF program, beside an empty one (dataplane/bench.py).
- **A host's own link**: through the tagger and the scheme's queues, or through one queue. A device that drops what it
  sends stands for the link, so that only the way to it is measured.
- **Flow watch**: one process opens short connections to itself, one after the other, over the loopback device. Flow
  watch sees both ends, and no other work happens between them.
- **A hop of the switch**: CPU time of ovs-vswitchd for each packet that one of its ports sends, with the cheaper
  turns and without. The network is the demonstration's. Each host sends full and empty packets at random times to
  random hosts.

What needs interfaces of its own is measured in a process of its own, under `unshare --net`.
"""

import contextlib
import json
import random
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from experiments.bench.measuring import Result, in_own_network, in_turn, median_ratio, wait_for
from experiments.kit.live import sent_packets
from sluice.dataplane import bench, sockopt
from sluice.dataplane.link_queues import ROOT
from sluice.dataplane.tagger import Tagger, TagSettings
from sluice.dataplane.watch import Watch
from sluice.hostagent.link import HostLink
from sluice.hostagent.spool import Spool
from sluice.hostagent.watch import Host, to_record
from sluice.policy.errors import EnvironmentLacking
from sluice.policy.schema.desired import Policy, host_queue_map
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.wait import wait_until
from sluice.topologies import build
from sluice.topologies.commands import install
from sluice.topologies.testbed import Testbed


def packet_results() -> Iterator[Result]:
    for program, ns_per_packet, empty_ns in in_own_network(bench.measure):
        yield Result(f"{program} program", ns_per_packet, "ns/packet", empty_ns, "an empty program")


# ── A host's own link ────────────────────────────────────────────────────────────────────────────────


LINK_ROUNDS = 9
PACKETS = 50_000
PAYLOAD_BYTES = 1400
_LINK = "link0"
_SINKS = ("dummy", "ifb")
"""Kinds of devices that drop what this host sends there."""
_ONE_QUEUE = f"qdisc replace dev {_LINK} root handle 1: pfifo limit 1000\n"


def link_results() -> Iterator[Result]:
    """A packet from the program's call to the device, by what is at the host's own link: medians of CPU time."""
    try:
        kind, costs = in_own_network(link_costs)
    except CommandFailed as error:
        raise EnvironmentLacking(f"the cost of a host's own link: {error.output.strip()}") from error
    plain, tagged, queued = map(statistics.median, costs)
    what, one_queue = "a packet to the host's own link", "tagger and one queue"
    yield Result(f"{what}, tagger and {kind}", queued, "ns", tagged, one_queue)
    yield Result(f"{what}, {one_queue}", tagged, "ns", plain, "one queue")


def link_costs() -> tuple[str, list[list[float]]]:
    """Return the kind of the queues, and the rounds' ns for a packet: one queue, with the tagger, with its queues."""
    _make_sink()
    link, kinds = HostLink([_LINK], ROOT), []
    queues = host_queue_map(Policy.from_document({"scheme": "sluice"}))

    def plain() -> float:
        with _plain():
            return _ns_per_packet()

    def tagged() -> float:
        with _plain(), _tagged(TagSettings()):
            return _ns_per_packet()

    def queued() -> float:
        link.begin()
        kinds.append(link.name)
        try:
            with _tagged(TagSettings(priorities=link.priorities(queues))):
                return _ns_per_packet()
        finally:
            link.end()

    costs = in_turn(LINK_ROUNDS, plain, tagged, queued)
    return kinds[0], costs


def _make_sink() -> None:
    for kind in _SINKS:
        try:
            run(["ip", "link", "add", _LINK, "type", kind])
        except CommandFailed:
            continue
        run(["ip", "link", "set", _LINK, "up"])
        run(["ip", "addr", "add", "10.9.0.1/24", "dev", _LINK])
        run(["ip", "neigh", "add", "10.9.0.2", "lladdr", "02:00:00:00:00:02", "dev", _LINK])
        return
    raise SystemExit(f"the kernel has no device of the kinds {' and '.join(_SINKS)}")


@contextmanager
def _plain() -> Iterator[None]:
    run(["tc", "-batch", "-"], stdin=_ONE_QUEUE)
    try:
        yield
    finally:
        run(["tc", "qdisc", "del", "dev", _LINK, "root"])


@contextmanager
def _tagged(settings: TagSettings) -> Iterator[None]:
    with Tagger(settings) as tagger:
        tagger.attach(_LINK)
        try:
            yield
        finally:
            tagger.detach(_LINK)


def _ns_per_packet() -> float:
    data = bytes(PAYLOAD_BYTES)
    with socket.socket(type=socket.SOCK_DGRAM) as sender:
        sender.connect(("10.9.0.2", 9))
        send = sender.send
        began_ns = time.thread_time_ns()
        for _ in range(PACKETS):
            send(data)
        return (time.thread_time_ns() - began_ns) / PACKETS


# ── Flow watch ───────────────────────────────────────────────────────────────────────────────────────


CONNECTIONS = 500
PAIRS = 50
_PAYLOAD = bytes(100)


def connection_results() -> Iterator[Result]:
    """Connections of 100 bytes over the loopback device, with both ends watched and without, in turns.

    Rates are per second of CPU time, because others may use the machine. A record's cost is that of user space, from
    the ring buffer to the spool.
    """
    watched, unwatched, us_per_record = in_own_network(connection_rates)
    name, rate, without = "short connections + flow watch", *map(statistics.median, (watched, unwatched))
    yield Result(name, rate, "connections/CPU s", without, "without", median_ratio(watched, unwatched))
    yield Result("flow watch, a record made and spooled", statistics.median(us_per_record), "us")


def connection_rates() -> tuple[list[float], list[float], list[float]]:
    """Return the rates with the watch, those without, and the costs of a record."""
    run(["ip", "link", "set", "lo", "up"])
    # Otherwise the ports of closed connections stay taken for a minute, and there are too few of them.
    run(["sysctl", "-qw", "net.ipv4.tcp_max_tw_buckets=0"])
    _connections_per_cpu_s()  # warm-up
    costs_us = []

    def with_watch() -> float:
        with Watch() as watch:
            rate = _connections_per_cpu_s()
            costs_us.append(_us_per_record(watch))
            return rate

    watched, unwatched = in_turn(PAIRS, with_watch, _connections_per_cpu_s)
    return watched, unwatched, costs_us


def _connections_per_cpu_s(count: int = CONNECTIONS) -> float:
    """Return connections per second of CPU time. Over the loopback device, the calling process
    does all the kernel's work."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        began = time.process_time()
        for _ in range(count):
            with socket.create_connection(listener.getsockname()) as client, listener.accept()[0] as server:
                client.sendall(_PAYLOAD)
                client.shutdown(socket.SHUT_WR)
                while server.recv(4096):
                    pass
        return count / (time.process_time() - began)


def _us_per_record(watch: Watch) -> float:
    host = Host("h1", {}, "0123456789ab", time.time_ns() - time.monotonic_ns())
    with tempfile.TemporaryDirectory() as folder:
        spool, spooled = Spool(Path(folder)), 0
        began = time.perf_counter()
        for connection in watch.ended():
            record = to_record(connection, host, "none")
            if record is not None:
                spool.append(record)
                spooled += 1
        elapsed_s = time.perf_counter() - began
        spool.close()
    if spooled != CONNECTIONS:
        raise RuntimeError(f"{CONNECTIONS} connections, but {spooled} records: the watch missed some")
    return elapsed_s / spooled * 1e6


# ── Socket options ───────────────────────────────────────────────────────────────────────────────────


CALL_ROUNDS = 20
CALLS = 20_000
Call = Callable[[socket.socket], object]
CALLS_MEASURED: dict[str, Call] = {
    "setsockopt()": lambda sock: sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    "getsockopt()": lambda sock: sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
}


def hook_results() -> Iterator[Result]:
    """The extra cost of an ordinary socket option, for a program that does not use Sluice: minima over the rounds.

    Python's own share is in both. Nothing is measured if an agent's hook already serves this machine, because no
    baseline exists then.
    """
    if sockopt.answers():
        return
    for name, call in CALLS_MEASURED.items():

        def plain(call: Call = call) -> float:
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
                return _ns_a_call(call, sock)

        def with_hook(plain: Callable[[], float] = plain) -> float:
            with contextlib.closing(sockopt.Attachment()):
                return plain()

        without, hooked = in_turn(CALL_ROUNDS, plain, with_hook)
        yield Result(f"{name} + hook", min(hooked), "ns", min(without), "without")


def _ns_a_call(call: Call, sock: socket.socket) -> float:
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        call(sock)
    return (time.perf_counter_ns() - begin) / CALLS


# ── A hop of the switch ──────────────────────────────────────────────────────────────────────────────


RATES = (75, 375)
"""Packets that each host sends in a second: a fifth of the demonstration's, and as many."""
RATE_BPS = 5_000_000
FORWARDING_ROUNDS = 3
FORWARDING_S = 6.0
_LEAST_PACKETS = 1000
_FULL, _EMPTY, _FULL_SHARE = bytes(1400), bytes(24), 0.45
_PORT = 9


def forwarding_results() -> Iterator[Result]:
    """ovs-vswitchd at the demonstration's load and at a fifth of it, in turn with and without topologies/turns.c."""
    rounds = [
        [_forwarding(cheap_turns, number) for cheap_turns in (True, False)]
        for number in range(FORWARDING_ROUNDS)
    ]
    for rate in RATES:
        hops_per_s = statistics.median(with_turns[rate][0] for with_turns, _ in rounds)
        us, us_without = ([measured[turn][rate][1] for measured in rounds] for turn in (0, 1))
        medians = statistics.median(us), "us", statistics.median(us_without)
        name = f"ovs-vswitchd, a packet-hop at {hops_per_s:,.0f} a second"
        yield Result(name, *medians, "without topologies/turns.c", median_ratio(us, us_without))


def _forwarding(cheap_turns: bool, seed: int) -> Mapping[int, tuple[float, float]]:
    """Return packet-hops a second and the CPU time (us) of each, by rate."""
    network = build("leaf-spine", host_rate_bps=RATE_BPS, core_rate_bps=RATE_BPS)
    with (
        tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder,
        Testbed.start(network, Path(folder), controller=None, cheap_turns=cheap_turns) as bed,
    ):
        for command in install(network, lambda tag: tag % 8):
            bed.ovs(command.argv, stdin=command.stdin)
        return {rate: _at_rate(bed, rate, seed) for rate in RATES}


def _at_rate(bed: Testbed, rate: int, seed: int) -> tuple[float, float]:
    hosts = bed.topology.hosts
    idle_hops, _ = _switch_used(bed)
    senders = []
    for number, host in enumerate(hosts):
        others = [other.ipv4 for other in hosts if other is not host]
        order = json.dumps((2 * FORWARDING_S, rate, f"{seed}.{number}", others))
        senders.append(bed.spawn(host.name, [sys.executable, "-m", __name__, order]))
    wait_until(lambda: _switch_used(bed)[0] > idle_hops + _LEAST_PACKETS, "the hosts send", timeout_s=60)
    began, (hops_before, cpu_before_s) = time.monotonic(), _switch_used(bed)
    time.sleep(FORWARDING_S)
    took_s, (hops_after, cpu_after_s) = time.monotonic() - began, _switch_used(bed)
    for sender in senders:
        sender.wait()
    hops = hops_after - hops_before
    return hops / took_s, (cpu_after_s - cpu_before_s) / hops * 1e6


def _switch_used(bed: Testbed) -> tuple[int, float]:
    """Return the packets that the switches' ports have sent, and the CPU time of ovs-vswitchd so far."""
    process = Path(f"/proc/{bed.pids['ovs-vswitchd']}")
    cpu_ns = sum(int(path.read_text().split()[0]) for path in process.glob("task/*/schedstat"))
    counters = (process / "net/dev").read_text()
    return sum(sent_packets(counters, port.interface) for port in bed.topology.ports), cpu_ns / 1e9


def send(seconds: float, rate: float, seed: str, addresses: list[str]) -> None:
    chance, sockets = random.Random(seed), []
    for address in addresses:
        sender = socket.socket(type=socket.SOCK_DGRAM)
        sender.connect((address, _PORT))
        sockets.append(sender)
    due = time.monotonic()
    end = due + seconds
    while due < end:
        due += chance.expovariate(rate)
        wait_for(due)
        try:
            chance.choice(sockets).send(_FULL if chance.random() < _FULL_SHARE else _EMPTY)
        except ConnectionRefusedError:
            continue  # the other host has no receiver, and says so


if __name__ == "__main__":
    send(*json.loads(sys.argv[1]))
