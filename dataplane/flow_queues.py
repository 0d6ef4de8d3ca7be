# SPDX-License-Identifier: Apache-2.0
"""The flow queues of a switch port. Each of Open vSwitch's classes gets an HTB with one class a sub-queue.

    1:                    Open vSwitch's HTB
      1:fffe              its root class, the link's rate
        1:(q+1)           OpenFlow queue q: priority, share of the link, statistics
          (16+q):         Sluice's HTB
            (16+q):(j+1)  sub-queue j

HTB serves classes of one priority by deficit round robin. Its quantum is one frame, so each class sends one packet a
turn, which is the rule of dataplane/laws/dqs.h. These classes never delay a packet, because their rates are far above
any link's. Open vSwitch's classes decide when a priority is served. They do not depend on the flow queues and can
change at any time.

A packet's mark is the id of its class (bpf/port.bpf.c). A packet with another mark, or none, goes to the first
sub-queue. If the policy has no flow queues, the port program sets no marks. The sub-queues stay even then, because
adding them under traffic would lose waiting packets.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from sluice.dataplane.rtnetlink import Kind, all_queues
from sluice.runtime.command import CommandFailed, run

QUEUES = 8
SUB_QUEUES = 8
"""PORT_SUB_QUEUES in bpf/port.h."""
LEAF_PACKETS = 100_000
"""More than a policy's buffer holds of the shortest packets."""
_FIRST_MAJOR = 0x10
"""PORT_FLOW_MAJOR in bpf/port.h."""

_RATE = "rate 100gbit burst 1mb cburst 1mb"
QUANTUM_BYTES = 1518
"""A full frame with the priority tag, as the qdisc counts it. With less, HTB's deficit would fall until it wraps. See
`turns` for longer frames."""

_CLASSID_IS_THE_MARK = "2,32 0 0 4294963220,22 0 0 0"
"""Classic BPF: load SKF_AD_OFF + SKF_AD_MARK and return it. 0 is "no match" and leads to the default class."""


def commands(ifname: str, queue: int) -> str:
    """Return `tc -batch` input that makes flow queues below one of Open vSwitch's queues. Waiting packets are lost."""
    handle = f"{_FIRST_MAJOR + queue:x}:"
    lines = [f"qdisc replace dev {ifname} parent 1:{queue + 1} handle {handle} htb default 1"]
    for j in range(SUB_QUEUES):
        class_ = f"class add dev {ifname} parent {handle} classid {handle}{j + 1}"
        lines.append(f"{class_} htb {_RATE} quantum {QUANTUM_BYTES}")
    # The filter comes last, because until then the queue is one queue, as before.
    where = f"filter add dev {ifname} parent {handle} protocol all prio 1 handle 1"
    lines.append(f"{where} bpf bytecode '{_CLASSID_IS_THE_MARK}'")
    return "".join(line + "\n" for line in lines)


def turns(ifname: str, quantum_bytes: int) -> str:
    """Return `tc -batch` input that lets each flow queue of a port send this much in its turn."""
    handles = (f"{_FIRST_MAJOR + queue:x}:" for queue in range(QUEUES))
    return "".join(
        f"class change dev {ifname} parent {handle} classid {handle}{j + 1} htb {_RATE} quantum {quantum_bytes}\n"
        for handle in handles
        for j in range(SUB_QUEUES)
    )


def make(ifname: str) -> None:
    """Make missing flow queues at a port of this network namespace. CommandFailed: it has no Open vSwitch queues."""
    there = standing().get(socket.if_nametoindex(ifname), set())
    lacking = [queue for queue in range(QUEUES) if queue not in there]
    if not lacking:
        return
    try:
        with _long_leaves(ifname):
            run(["tc", "-batch", "-"], stdin="".join(commands(ifname, queue) for queue in lacking))
    except CommandFailed:
        for queue in lacking:  # a part would pass for a complete set
            with suppress(CommandFailed):
                run(["tc", "qdisc", "del", "dev", ifname, "parent", f"1:{queue + 1}"])
        raise


@contextmanager
def _long_leaves(ifname: str) -> Iterator[None]:
    """Let the classes that are made meanwhile hold LEAF_PACKETS each, so that no packet is lost after the port's law.

    A new class holds as many as the interface's txqueuelen says, often 1,000, which is less than the policy's buffer at
    25 Gb/s or with short packets. The interface keeps its own length.
    """
    before = int(json.loads(run(["ip", "-j", "link", "show", "dev", ifname]))[0]["txqlen"])
    length = ["ip", "link", "set", "dev", ifname, "txqueuelen"]
    if before < LEAF_PACKETS:
        run([*length, str(LEAF_PACKETS)])
    try:
        yield
    finally:
        if before < LEAF_PACKETS:
            run([*length, str(before)])


def standing() -> dict[int, set[int]]:
    """Return the queues that have flow queues, by interface index in this network namespace.

    Flow queues disappear when Open vSwitch makes the classes above them again.
    """
    queues: dict[int, set[int]] = {}
    try:
        qdiscs = list(all_queues(Kind.QDISCS))
    except OSError as error:
        raise OSError(error.errno, f"cannot list the queues: {error.strerror}") from error
    for index, handle, _, _ in qdiscs:
        queue = (handle >> 16) - _FIRST_MAJOR
        if 0 <= queue < QUEUES:
            queues.setdefault(index, set()).add(queue)
    return queues
