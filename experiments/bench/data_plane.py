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

The module runs itself again under `unshare --net` for what needs interfaces of its own.
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
from contextlib import contextmanager, nullcontext
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

from experiments.bench.measuring import Result, in_own_network
from sluice.dataplane.bench import measure as packet_costs
from sluice.dataplane.link_queues import ROOT
from sluice.dataplane.sockopt import Attachment, answers
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

LINK_ROUNDS = 9
PACKETS = 50_000
PAYLOAD_BYTES = 1400
_LINK = "link0"
_SINKS = ("dummy", "ifb")
"""Kinds of devices that drop what this host sends there."""
_ONE_QUEUE = f"qdisc replace dev {_LINK} root handle 1: pfifo limit 1000\n"


class LinkCost(NamedTuple):
    """Medians in ns of CPU time for a packet, from the program's call to the device."""

    qdisc: str
    """The kind of the queues."""
    queues: float
    """With tagger and queues."""
    tagger: float
    """With the tagger and one queue."""
    plain: float
    """With one queue alone."""


def measure_link() -> LinkCost:
    """Return the costs. Raises EnvironmentLacking if the kernel has no device for it."""
    try:
        return LinkCost(*in_own_network(__name__, "link", timeout_s=300))
    except CommandFailed as error:
        raise EnvironmentLacking(f"the cost of a host's own link: {error.output.strip()}") from error


def _link_cost() -> LinkCost:
    _make_sink()
    costs: dict[str, list[float]] = {"queues": [], "tagger": [], "plain": []}
    kind = ""
    for _ in range(LINK_ROUNDS):
        with _plain():
            costs["plain"].append(_ns_per_packet())
        with _plain(), _tagged(TagSettings()):
            costs["tagger"].append(_ns_per_packet())
        link = HostLink(_LINK, ROOT)
        link.begin()
        kind = link.name
        settings = TagSettings(
            priorities=link.priorities(host_queue_map(Policy.from_document({"scheme": "sluice"})))
        )
        with _tagged(settings):
            costs["queues"].append(_ns_per_packet())
        link.end()
    return LinkCost(kind, *(statistics.median(costs[name]) for name in ("queues", "tagger", "plain")))


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


def link_results() -> Iterator[Result]:
    """A packet from the program's call to the device, by what is at the host's own link."""
    cost = measure_link()
    what = "a packet to the host's own link"
    yield Result(f"{what}, tagger and {cost.qdisc}", cost.queues, "ns", cost.tagger, "tagger and one queue")
    yield Result(f"{what}, tagger and one queue", cost.tagger, "ns", cost.plain, "one queue")


def packet_results() -> Iterator[Result]:
    for program, ns_per_packet, empty_ns in in_own_network(__name__, "programs", timeout_s=300):
        yield Result(f"{program} program", ns_per_packet, "ns/packet", empty_ns, "an empty program")


# ── Flow watch ───────────────────────────────────────────────────────────────────────────────────────


CONNECTIONS = 500
PAIRS = 50
_PAYLOAD = bytes(100)


@dataclass(frozen=True)
class ConnectionRates:
    """Medians over PAIRS, with and without the watch in turns. Rates are per second of CPU time:
    others may use the machine."""

    watched_per_cpu_s: float
    unwatched_per_cpu_s: float
    ratio: float
    """Median of the ratios of neighbouring measurements."""
    us_per_record: float
    """User space: from the ring buffer to the spool, for each connection that gets a record."""


def measure_connections() -> ConnectionRates:
    """Measure in a namespace of its own."""
    return ConnectionRates(**in_own_network(__name__, "connections", timeout_s=300))


def _connection_rates() -> dict[str, float]:
    run(["ip", "link", "set", "lo", "up"])
    # Otherwise the ports of closed connections stay taken for a minute, and there are too few of
    # them.
    run(["sysctl", "-qw", "net.ipv4.tcp_max_tw_buckets=0"])
    _connections_per_cpu_s(CONNECTIONS)  # warm-up
    rates: dict[bool, list[float]] = {True: [], False: []}
    costs = []
    for number in range(PAIRS):
        for with_watch in (number % 2 == 0, number % 2 == 1):
            with Watch() if with_watch else nullcontext() as watch:
                rates[with_watch].append(_connections_per_cpu_s(CONNECTIONS))
                if watch is not None:
                    costs.append(_us_per_record(watch))
    return {
        "watched_per_cpu_s": statistics.median(rates[True]),
        "unwatched_per_cpu_s": statistics.median(rates[False]),
        "ratio": statistics.median(a / b for a, b in zip(rates[True], rates[False], strict=True)),
        "us_per_record": statistics.median(costs),
    }


def _connections_per_cpu_s(count: int) -> float:
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


def connection_results() -> Iterator[Result]:
    """Connections of 100 bytes over the loopback device, with both ends watched."""
    rates = measure_connections()
    name, without = "short connections + flow watch", rates.unwatched_per_cpu_s
    yield Result(name, rates.watched_per_cpu_s, "connections/CPU s", without, "without", rates.ratio)
    yield Result("flow watch, a record made and spooled", rates.us_per_record, "us")


# ── Socket options ───────────────────────────────────────────────────────────────────────────────────


CALL_ROUNDS = 20
CALLS = 20_000

Call = Callable[[socket.socket], object]

CALLS_MEASURED: dict[str, Call] = {
    "setsockopt()": lambda sock: sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    "getsockopt()": lambda sock: sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
}


@dataclass(frozen=True)
class HookCost:
    """Nanoseconds per call, with Python's own share; the minimum over the rounds."""

    call: str
    without_ns: float
    with_ns: float


def measure_hook() -> list[HookCost]:
    """Measure the cost of each call. Empty if an agent's hook already serves this machine, because
    no baseline exists then."""
    if answers():
        return []
    return [_hook_cost(name, call) for name, call in CALLS_MEASURED.items()]


def _hook_cost(name: str, call: Call) -> HookCost:
    without, hooked = [], []
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        for _ in range(CALL_ROUNDS):
            without.append(_ns_a_call(call, sock))
            with contextlib.closing(Attachment()):
                hooked.append(_ns_a_call(call, sock))
    return HookCost(name, min(without), min(hooked))


def _ns_a_call(call: Call, sock: socket.socket) -> float:
    begin = time.perf_counter_ns()
    for _ in range(CALLS):
        call(sock)
    return (time.perf_counter_ns() - begin) / CALLS


def hook_results() -> Iterator[Result]:
    """The extra cost of an ordinary socket option, for a program that does not use Sluice."""
    for cost in measure_hook():
        yield Result(f"{cost.call} + hook", cost.with_ns, "ns", cost.without_ns, "without")


# ── A hop of the switch ──────────────────────────────────────────────────────────────────────────────


RATES = (75, 375)
"""Packets that each host sends in a second: a fifth of the demonstration's, and as many."""
RATE_BPS = 5_000_000
FORWARDING_ROUNDS = 3
FORWARDING_S = 6.0
_LEAST_PACKETS = 1000
_FULL, _EMPTY, _FULL_SHARE = bytes(1400), bytes(24), 0.45
_PORT = 9


class HopCost(NamedTuple):
    """Medians of the rounds."""

    hops_per_s: float
    us: float
    us_without: float
    ratio: float
    """Median of the ratios of the pairs."""


class _Used(NamedTuple):
    at_s: float
    cpu_s: float
    hops: int


def measure_forwarding() -> Mapping[int, HopCost]:
    """Return the cost by the rate of a host. Needs root and three minutes."""
    measured: dict[int, list[tuple[float, float, float]]] = {rate: [] for rate in RATES}
    for number in range(FORWARDING_ROUNDS):
        with_turns, without = _forwarding(True, number), _forwarding(False, number)
        for rate in RATES:
            measured[rate].append((*with_turns[rate], without[rate][1]))
    costs = {}
    for rate, rounds in measured.items():
        hops_per_s, us, us_without = (statistics.median(values) for values in zip(*rounds, strict=True))
        ratio = statistics.median(us_with / us_plain for _, us_with, us_plain in rounds)
        costs[rate] = HopCost(hops_per_s, us, us_without, ratio)
    return costs


def _forwarding(cheap_turns: bool, seed: int) -> dict[int, tuple[float, float]]:
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
    idle = _switch_used(bed)
    senders = []
    for number, host in enumerate(hosts):
        others = [other.ipv4 for other in hosts if other is not host]
        order = [str(2 * FORWARDING_S), str(rate), f"{seed}.{number}", *others]
        senders.append(bed.spawn(host.name, [sys.executable, "-m", __name__, "send", *order]))
    wait_until(lambda: _switch_used(bed).hops > idle.hops + _LEAST_PACKETS, "the hosts send", timeout_s=60)
    before = _switch_used(bed)
    time.sleep(FORWARDING_S)
    after = _switch_used(bed)
    for sender in senders:
        sender.wait()
    hops = after.hops - before.hops
    return hops / (after.at_s - before.at_s), (after.cpu_s - before.cpu_s) / hops * 1e6


def _switch_used(bed: Testbed) -> _Used:
    """Return the CPU time of ovs-vswitchd so far, and the packets that the switches' ports have sent."""
    process = Path(f"/proc/{bed.pids['ovs-vswitchd']}")
    cpu_ns = sum(int(path.read_text().split()[0]) for path in process.glob("task/*/schedstat"))
    ports, hops = {port.interface for port in bed.topology.ports}, 0
    for line in (process / "net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if name.strip() in ports:
            hops += int(counters.split()[9])
    return _Used(time.monotonic(), cpu_ns / 1e9, hops)


def _send(seconds: float, rate: float, seed: str, addresses: list[str]) -> None:
    chance, sockets = random.Random(seed), []
    for address in addresses:
        sender = socket.socket(type=socket.SOCK_DGRAM)
        sender.connect((address, _PORT))
        sockets.append(sender)
    due = time.monotonic()
    end = due + seconds
    while due < end:
        due += chance.expovariate(rate)
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            chance.choice(sockets).send(_FULL if chance.random() < _FULL_SHARE else _EMPTY)
        except ConnectionRefusedError:
            continue  # the other host has no receiver, and says so


def forwarding_results() -> Iterator[Result]:
    """ovs-vswitchd at the demonstration's load and at a fifth of it, in turn with and without topologies/turns.c."""
    for cost in measure_forwarding().values():
        name = f"ovs-vswitchd, a packet-hop at {cost.hops_per_s:,.0f} a second"
        yield Result(name, cost.us, "us", cost.us_without, "without topologies/turns.c", cost.ratio)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["link"]:
            print(json.dumps(_link_cost()))
        case ["programs"]:
            print(json.dumps([astuple(cost) for cost in packet_costs()]))
        case ["connections"]:
            print(json.dumps(_connection_rates()))
        case ["send", seconds, rate, seed, *addresses]:
            _send(float(seconds), float(rate), seed, addresses)
