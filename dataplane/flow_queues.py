# SPDX-License-Identifier: Apache-2.0
"""The flow queues of a switch port: below each of Open vSwitch's classes an HTB of ours, with a class a sub-queue.

    1:                    Open vSwitch's HTB
      1:fffe              its root class, the link's rate
        1:(q+1)           OpenFlow queue q: priority, share of the link, statistics
          (16+q):         ours
            (16+q):(j+1)  sub-queue j

HTB serves classes of one priority by deficit round robin; a quantum of one frame makes that a packet each, as
dataplane/laws/dqs.h wants it. Nothing here holds a packet back: the rates are far above any link's, and which priority
is served when is the business of Open vSwitch's classes, which know nothing of this and can change meanwhile.

A packet's mark is the id of its class (bpf/port.bpf.c); one without is in the first sub-queue, and so are all while the
policy asks for no flow queues. The queues stay all the same: to put them under traffic would lose what waits there.
"""

from __future__ import annotations

import os
import socket
import struct

from runtime.command import run

QUEUES = 8
SUB_QUEUES = 8
"""PORT_SUB_QUEUES in bpf/port.h."""
_FIRST_MAJOR = 0x10
"""PORT_FLOW_MAJOR there."""

_RATE = "rate 100gbit burst 1mb cburst 1mb"
_QUANTUM_BYTES = 1518
"""A full frame with the priority tag, as the qdisc counts it. With less, HTB's deficit would fall for ever and wrap."""

_CLASSID_IS_THE_MARK = "2,32 0 0 4294963220,22 0 0 0"
"""Classic BPF: load SKF_AD_OFF + SKF_AD_MARK, return it. 0 is "no match", and leads to the default class."""

_LAST_HANDLE = (_FIRST_MAJOR + QUEUES - 1) << 16
"""Of the qdisc that is made last."""

_RTM_GETQDISC, _NLM_F_REQUEST, _NLM_F_DUMP = 38, 1, 0x300
_NLMSG_ERROR, _NLMSG_DONE = 2, 3
_HEADER = struct.Struct("=IHHII")
"""struct nlmsghdr: length, type, flags, sequence number, port."""
_TCMSG = struct.Struct("=IiIII")
"""struct tcmsg: family, interface, handle, parent, info."""
_DUMP_BYTES = 1 << 16


def commands(ifname: str) -> str:
    """`tc -batch`: all flow queues of a port that has Open vSwitch's. What waits in those classes now is lost."""
    return "".join(line + "\n" for q in range(QUEUES) for line in _of_queue(ifname, q))


def _of_queue(ifname: str, queue: int) -> list[str]:
    handle = f"{_FIRST_MAJOR + queue:x}:"
    classes = [
        f"class replace dev {ifname} parent {handle} classid {handle}{j + 1} htb {_RATE} quantum {_QUANTUM_BYTES}"
        for j in range(SUB_QUEUES)
    ]
    return [
        f"qdisc replace dev {ifname} parent 1:{queue + 1} handle {handle} htb default 1",
        *classes,
        f"filter replace dev {ifname} parent {handle} protocol all prio 1 handle 1 "
        f"bpf bytecode '{_CLASSID_IS_THE_MARK}'",
    ]


def make(ifname: str) -> None:
    """Make the flow queues of a port of the current network namespace. CommandFailed when it has no queues of ours."""
    run(["tc", "-batch", "-"], stdin=commands(ifname))


def standing() -> set[int]:
    """Numbers of the interfaces of the current network namespace that have them.

    They go with the classes above them, when Open vSwitch makes those anew. All are asked for at once: the kernel tells
    everybody who listens for changes of it when somebody asks for one, which is what the port agent does.
    """
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as netlink:
        request = bytes(_TCMSG.size)
        header = (_HEADER.size + len(request), _RTM_GETQDISC, _NLM_F_REQUEST | _NLM_F_DUMP, 1, 0)
        netlink.send(_HEADER.pack(*header) + request)
        found: set[int] = set()
        while _read_dump(netlink.recv(_DUMP_BYTES), found):
            pass
    return found


def _read_dump(data: bytes, found: set[int]) -> bool:
    """Add the interfaces of one part of the answer; False at its end. Raises OSError with the kernel's."""
    at = 0
    while at < len(data):
        length, kind, *_ = _HEADER.unpack_from(data, at)
        if kind == _NLMSG_DONE:
            return False
        if kind == _NLMSG_ERROR:
            code = -struct.unpack_from("=i", data, at + _HEADER.size)[0]
            raise OSError(code, f"cannot look at the queues: {os.strerror(code)}")
        _, index, handle, _, _ = _TCMSG.unpack_from(data, at + _HEADER.size)
        if handle == _LAST_HANDLE:
            found.add(index)
        at += (length + 3) // 4 * 4
    return True
