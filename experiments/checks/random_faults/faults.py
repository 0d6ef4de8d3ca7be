# SPDX-License-Identifier: Apache-2.0
"""Faults of a running Sluice, as actions that can be undone.

A process is killed or stopped, a switch loses its controller, or a link loses its carrier.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sluice.runs.stack import Stack
from sluice.topologies import processes

Undo = Callable[[], None]

NOWHERE = "tcp:127.0.0.1:1"
"""An address without a controller."""
KINDS = {"kill": 0.35, "stop": 0.35, "disconnect": 0.2, "link": 0.1}
"""The probability of each kind."""
SECONDS = {"kill": (0.0, 0.0), "stop": (0.2, 5.0), "disconnect": (0.2, 5.0), "link": (0.2, 1.0)}
"""The shortest and longest duration of each kind."""
PACKETS_NEED = (("kill", "ovs-vswitchd"), ("stop", "ovs-vswitchd"), ("kill", "ovsdb-server"))
"""Faults that stop packets. Without ovs-vswitchd no packet moves. Its main thread polls the ports
of a userspace datapath, and waits while its database is away. Stopping the database does not break
the connection."""


@dataclass(frozen=True)
class Fault:
    """A fault that was drawn. Times are epoch seconds."""

    kind: str
    target: str
    """The name of a process, a switch or an interface."""
    seconds: float
    at: float

    @property
    def stops_packets(self) -> bool:
        """Whether the fault itself stops packets, independently of the control plane."""
        return self.kind == "link" or (self.kind, self.target) in PACKETS_NEED


def draw(stack: Stack, rng: np.random.Generator) -> Fault:
    kind = str(rng.choice(list(KINDS), p=list(KINDS.values())))
    targets = {
        "kill": process_names(stack),
        "stop": process_names(stack),
        "disconnect": [switch.name for switch in stack.topology.switches],
        "link": [port.interface for port in stack.topology.ports],
    }
    return Fault(kind, str(rng.choice(targets[kind])), float(rng.uniform(*SECONDS[kind])), time.time())


def process_names(stack: Stack) -> list[str]:
    return [*(service.name for service in stack.services.running), *sorted(stack.testbed.pids)]


def inject(stack: Stack, fault: Fault) -> Undo:
    """Make the fault happen. Returns the function that ends it, to be called `fault.seconds` later."""
    match fault.kind:
        case "kill":
            _signal([_pid(stack, fault.target)], signal.SIGKILL)
            return lambda: None
        case "stop":
            return _stop(_family(_pid(stack, fault.target)))
        case "disconnect":
            return _disconnect(stack, fault.target)
        case _:
            return _unplug(stack, fault.target)


def _pid(stack: Stack, name: str) -> int:
    """Return the process's id; 0 while it restarts."""
    of_testbed = stack.testbed.pids
    if name in of_testbed:
        return of_testbed[name]
    running = [s.process.pid for s in stack.services.running if s.name == name and s.process.poll() is None]
    return running[0] if running else 0


def _family(pid: int) -> list[int]:
    """Return a process and its children, for example the workers of the web process."""
    return [pid, *(processes.children(pid) if pid else [])]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in filter(None, pids):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _stop(pids: list[int]) -> Undo:
    _signal(pids, signal.SIGSTOP)
    return lambda: _signal(pids, signal.SIGCONT)


def _disconnect(stack: Stack, switch: str) -> Undo:
    """Cut the switch off from its controller, which continues to run."""
    row = ["controller", _controller_of(stack, switch)]
    target = stack.testbed.ovs(["ovs-vsctl", "get", *row, "target"]).strip()
    stack.testbed.ovs(["ovs-vsctl", "--no-wait", "set", *row, f'target="{NOWHERE}"'])
    return lambda: _reconnect(stack, row, target)


def _controller_of(stack: Stack, switch: str) -> str:
    return stack.testbed.ovs(["ovs-vsctl", "get", "bridge", switch, "controller"]).strip("[] \n")


def _reconnect(stack: Stack, row: list[str], target: str) -> None:
    stack.testbed.ovs(["ovs-vsctl", "--no-wait", "set", *row, f"target={target}"])


def _unplug(stack: Stack, interface: str) -> Undo:
    stack.testbed.exec(None, ["ip", "link", "set", interface, "down"])
    return lambda: _plug(stack, interface)


def _plug(stack: Stack, interface: str) -> None:
    stack.testbed.exec(None, ["ip", "link", "set", interface, "up"])
