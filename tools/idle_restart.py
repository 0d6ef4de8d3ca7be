# SPDX-License-Identifier: Apache-2.0
"""Measures requests over persistent connections after pauses, with sluice_dctcp of two trees in turn.

    python -m tools.idle_restart --before ../before    # the checkout of an earlier commit

Two namespaces, whose cable is this process: it holds each frame for 5 ms, because not every kernel has netem. Each
connection begins with a low threshold of slow start, as after a cut. In half of the connections, a long transfer comes
before the first request. This needs root.
"""

import argparse
import fcntl
import itertools
import os
import select
import socket
import statistics
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sluice.dataplane import build
from sluice.dataplane.congestion import register_congestion_control
from sluice.runtime.wait import wait_until
from tests.kernel.controls import private_build
from tests.kernel.lab import Namespace, address, dial, listen, send_and_receive

DELAY_S = 0.005
PAUSE_S = 0.5
"""More than two retransmission timeouts, which are 200 ms and more."""
REQUESTS = 8
LONG_BYTES = 3_000_000
SIZES_BYTES = (20_000, 50_000, 100_000, 200_000)
SSTHRESH = 5
HOSTS = ("10.9.0.1", "10.9.0.2")
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x2, 0x1000
FRAME_BYTES = 2048


def plug(ns: Namespace, host: str) -> int:
    """Return the file descriptor of a new interface's cable."""
    with ns:
        fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH14x", b"eth0", IFF_TAP | IFF_NO_PI))
        ns.run("ip", "link", "set", "dev", "eth0", "up")
    address(ns, "eth0", f"{host}/24")
    return fd


def carry(ends: tuple[int, int], stop: threading.Event) -> None:
    """Carry frames between the two ends, each with the delay."""
    waiting: deque[tuple[float, int, bytes]] = deque()
    while not stop.is_set():
        left_s = waiting[0][0] - time.monotonic() if waiting else 0.1
        for fd in select.select(ends, [], [], max(0.0, left_s))[0]:
            waiting.append((time.monotonic() + DELAY_S, ends[fd == ends[0]], os.read(fd, FRAME_BYTES)))
        while waiting and waiting[0][0] <= time.monotonic():
            _, end, frame = waiting.popleft()
            os.write(end, frame)


@contextmanager
def network() -> Iterator[tuple[Namespace, Namespace]]:
    client, server, stop = Namespace(), Namespace(), threading.Event()
    ends = (plug(client, HOSTS[0]), plug(server, HOSTS[1]))
    client.sysctl("net.ipv4.tcp_no_ssthresh_metrics_save", 0)
    client.run("ip", "route", "replace", f"{HOSTS[1]}/32", "dev", "eth0", "ssthresh", "lock", str(SSTHRESH))
    for ns in (client, server):
        ns.sysctl("net.ipv4.tcp_ecn", 1)
    cable = threading.Thread(target=carry, args=(ends, stop))
    cable.start()
    try:
        yield client, server
    finally:
        stop.set()
        cable.join()
        for fd in (*ends, client.fd, server.fd):
            os.close(fd)


def request_s(client: socket.socket, server: socket.socket, size_bytes: int) -> float:
    """Return the seconds from the first byte of a request until its answer of one byte."""
    time.sleep(PAUSE_S)
    began = time.monotonic()
    send_and_receive(client, server, size_bytes)
    server.sendall(b"x")
    assert client.recv(1)
    return time.monotonic() - began


def measure(control: str, size_bytes: int, long_bytes: int) -> list[float]:
    """Return the times of a connection's requests, after a transfer of `long_bytes`."""
    with network() as (near, far), listen(far, HOSTS[1], control) as listener:
        for end in dial(near, listener, control):  # its end lets the kernel read the route's threshold
            end.close()
        wait_until(lambda: "ssthresh" in near.run("ip", "tcp_metrics"), "the threshold")
        client, server = dial(near, listener, control)
        with client, server:
            send_and_receive(client, server, long_bytes)
            return [request_s(client, server, size_bytes) for _ in range(REQUESTS)]


def register(stack: ExitStack, name: str, tree: Path) -> str:
    """Register the sluice_dctcp of a tree under another name."""
    build.SOURCES = tree.resolve() / "dataplane" / "bpf"
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    stack.enter_context(register_congestion_control(name, private_build(folder, name=name)))
    return name


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True, metavar="TREE", help="checkout to compare with")
    before = parser.parse_args().before
    with ExitStack() as stack:
        trees = {"sluice_before": before, "sluice_after": Path(__file__).parents[1]}
        controls = [register(stack, name, tree) for name, tree in trees.items()]
        print("| transfer before | request | control | median | slowest |\n| --- | --- | --- | --- | --- |")
        for long_bytes, size_bytes, control in itertools.product((0, LONG_BYTES), SIZES_BYTES, controls):
            times_ms = [1000 * took_s for took_s in measure(control, size_bytes, long_bytes)]
            figures = f"{statistics.median(times_ms):.0f} ms | {max(times_ms):.0f} ms"
            print(
                f"| {long_bytes // 10**6} MB | {size_bytes // 1000} KB | {control} | {figures} |", flush=True
            )


if __name__ == "__main__":
    main()
