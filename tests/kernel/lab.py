# SPDX-License-Identifier: Apache-2.0
"""Network namespaces for the tests. They are anonymous, so they end with the test process.

with Namespace() as a, Namespace() as b:
    connect(a, "eth0", b, "eth0")
    with a: ...     # this thread is in a: sockets, commands, /proc/sys/net
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from sluice.runtime.command import run
from sluice.runtime.wait import wait_until

Thing = TypeVar("Thing")

CLONE_NEWNET = 0x40000000
TUNSETIFF, TUNSETOFFLOAD = 0x400454CA, 0x400454D0  # include/uapi/linux/if_tun.h
IFF_TAP, IFF_NO_PI, IFF_VNET_HDR = 0x0002, 0x1000, 0x4000
CHECKSUMS_AND_SEGMENTS = 0b111
SIOCSIFFLAGS, SIOCETHTOOL, IFF_UP = 0x8914, 0x8946, 1
OFFLOADS = (0x17, 0x1F, 0x24, 0x2C)
"""ETHTOOL_STXCSUM, STSO, SGSO, SGRO of linux/ethtool.h. A process for each would take most of a test's CPU time."""
_libc = ctypes.CDLL(None, use_errno=True)


def _checked(code: int) -> None:
    if code != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Namespace:
    """A network namespace. `with ns:` moves the calling thread into it. A socket keeps its namespace."""

    def __init__(self) -> None:
        self._outside: list[int] = []
        before = _current()
        try:
            _checked(_libc.unshare(CLONE_NEWNET))
            self.fd = _current()
        finally:
            _checked(_libc.setns(before, CLONE_NEWNET))
            os.close(before)
        with self, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))

    def __enter__(self) -> Namespace:
        self._outside.append(_current())
        _checked(_libc.setns(self.fd, CLONE_NEWNET))
        return self

    def __exit__(self, *_: object) -> None:
        outside = self._outside.pop()
        _checked(_libc.setns(outside, CLONE_NEWNET))
        os.close(outside)

    def run(self, *argv: str) -> str:
        with self:
            return run(argv)

    def sysctl(self, name: str, value: object) -> None:
        with self:
            Path("/proc/sys", *name.split(".")).write_text(str(value))

    def close(self) -> None:
        os.close(self.fd)


def _current() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def connect(a: Namespace, a_name: str, b: Namespace, b_name: str) -> None:
    """Connect two namespaces by a veth pair. It is up and has no offloads, so every packet is a wire packet."""
    peer = ("peer", "name", b_name, "netns", f"/proc/{os.getpid()}/fd/{b.fd}", "gso_max_segs", "1")
    a.run("ip", "link", "add", "name", a_name, "gso_max_segs", "1", "type", "veth", *peer)
    for ns, name in ((a, a_name), (b, b_name)):
        ns.sysctl(f"net.ipv6.conf.{name}.accept_dad", 0)
        with ns, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            for offload in OFFLOADS:
                off = ctypes.create_string_buffer(struct.pack("=II", offload, 0))
                request = struct.pack("16sP", name.encode(), ctypes.addressof(off))
                fcntl.ioctl(control, SIOCETHTOOL, request)
            fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh", name.encode(), IFF_UP))


def tap(ns: Namespace, ifname: str, *, offload: bool = False) -> int:
    """Make a tap device, as for a virtual machine, and return the file that the machine's frames are written to.

    `offload`: each frame has a header of virtio, and may be as long as TCP makes it.
    """
    with ns:
        fd = os.open("/dev/net/tun", os.O_RDWR)
        flags = IFF_TAP | IFF_NO_PI | (IFF_VNET_HDR if offload else 0)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("=16sH22x", ifname.encode(), flags))
        if offload:
            fcntl.ioctl(fd, TUNSETOFFLOAD, CHECKSUMS_AND_SEGMENTS)
    return fd


def vxlan(ns: Namespace, own: str, other: str, address_: str, *options: str) -> None:
    ends = ("local", own, "remote", other, "dstport", "4789")
    ns.run("ip", "link", "add", "vx0", "type", "vxlan", "id", "5", *ends, *options)
    ns.run("ethtool", "-K", "vx0", "tso", "off", "gso", "off", "tx", "off")
    ns.run("ip", "link", "set", "dev", "vx0", "mtu", "1400", "gso_max_segs", "1", "up")
    address(ns, "vx0", address_)


def address(ns: Namespace, ifname: str, *addresses: str) -> None:
    """Add addresses with their prefix length."""
    lines = [f"addr add {one} dev {ifname}{' nodad' if ':' in one else ''}" for one in addresses]
    with ns:
        run(["ip", "-batch", "-"], stdin="\n".join(lines))


def routed(namespaces: list[Namespace]) -> tuple[Namespace, Namespace, Namespace]:
    """Return host a (10.1.0.1), host b (10.2.0.1), and between them a router with the interfaces west and east."""
    a, router, b = Namespace(), Namespace(), Namespace()
    namespaces += [a, router, b]
    router.sysctl("net.ipv4.ip_forward", 1)
    for host, side, prefix in ((a, "west", "10.1.0"), (b, "east", "10.2.0")):
        connect(host, "eth0", router, side)
        address(host, "eth0", f"{prefix}.1/24")
        address(router, side, f"{prefix}.254/24")
        host.run("ip", "route", "add", "default", "via", f"{prefix}.254")
    return a, router, b


def hardware_address(ns: Namespace) -> str:
    words = ns.run("ip", "-o", "link", "show", "dev", "eth0").split()
    return words[words.index("link/ether") + 1]


@contextlib.contextmanager
def refusing_frames(ns: Namespace) -> Iterator[None]:
    """During the block, eth0 has another hardware address, so that the host refuses frames to its own."""
    own = hardware_address(ns)
    ns.run("ip", "link", "set", "dev", "eth0", "address", "02:00:00:00:00:99")
    yield
    ns.run("ip", "link", "set", "dev", "eth0", "address", own)


def family_of(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def listen(ns: Namespace, host: str, control: str | None = None) -> socket.socket:
    """Return a listening TCP socket of a namespace, with its own congestion control."""
    with ns:
        listener = socket.socket(family_of(host), socket.SOCK_STREAM)
    if control:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    listener.settimeout(300)
    listener.bind((host, 0))
    listener.listen()
    return listener


def dial(
    ns: Namespace, listener: socket.socket, control: str | None = None
) -> tuple[socket.socket, socket.socket]:
    """Connect from a namespace to a listener, and return both ends."""
    with ns:
        client = socket.socket(listener.family, socket.SOCK_STREAM)
    if control:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode())
    client.settimeout(300)
    client.connect(listener.getsockname()[:2])
    server, _ = listener.accept()
    server.settimeout(300)
    return client, server


@contextlib.contextmanager
def connected(
    a: Namespace, b: Namespace, host: str, control: str | None = None
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connect from a to an address of b, both ends with this congestion control. The end closes both."""
    with listen(b, host, control) as listener:
        client, server = dial(a, listener, control)
    with client, server:
        yield client, server


def receive(sock: socket.socket, size_bytes: int) -> bytes:
    """Return exactly so many bytes. MSG_WAITALL does not wait on a socket with a timeout."""
    parts = [b""]
    while size_bytes > (received := sum(map(len, parts))):
        parts.append(sock.recv(size_bytes - received))
        assert parts[-1], "the other end has closed"
    return b"".join(parts)


def send_and_receive(sender: socket.socket, receiver: socket.socket, size_bytes: int) -> None:
    """Move `size_bytes` from one end to the other in this thread.

    Where all that was sent has been read and its ACK is still to come, only the sender will be ready next.
    """
    for end in (sender, receiver):
        end.setblocking(False)
    pending, received = memoryview(bytes(size_bytes)), 0
    while received < size_bytes:
        readable, writable, _ = select.select([receiver], [sender] if pending else [], [], 300)
        assert readable or writable, f"nothing moves after {received} of {size_bytes} bytes"
        if writable:
            with contextlib.suppress(BlockingIOError):
                pending = pending[sender.send(pending[:65536]) :]
        if readable:
            received += len(receiver.recv(65536))
    for end in (sender, receiver):
        end.settimeout(300)


def tcp_info(sock: socket.socket, place: int, layout: str = "=I") -> int:
    """Return a number at a place of struct tcp_info (include/uapi/linux/tcp.h)."""
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
    return int(struct.unpack_from(layout, info, place)[0])


def collected(read: Callable[[], Iterable[Thing]], count: int, what: str) -> list[Thing]:
    """Wait until `read` has returned so many things, in several calls, and return them."""
    found: list[Thing] = []

    def enough() -> bool:
        found.extend(read())
        return len(found) >= count

    wait_until(enough, what)
    return found
