# SPDX-License-Identifier: Apache-2.0
"""Links that fail, lose packets and come back while a run lasts ([[simulator.fault]])."""

import math
from collections.abc import Sequence
from dataclasses import replace

from sluice.policy.network.graph import Topology
from sluice.policy.units import PS_PER_S
from sluice.policy.workload.scenario import Fault, Scenario
from sluice.simulator import _fabric
from sluice.simulator.division import Layout
from sluice.simulator.network import MakePort, on_link, route

NEVER_PS = 2**62
ALL_Q32 = 2**32 - 1
"""The core's share of packets that a port loses, if it loses all."""


class Faults:
    """Changes ports and routes when a fault begins, is noticed, ends, and its end is noticed."""

    def __init__(
        self,
        faults: Sequence[Fault],
        layout: Layout,
        fabric: _fabric.Fabric,
        make_port: MakePort,
        *,
        turn_by_host: bool,
    ) -> None:
        self._faults, self._layout, self._fabric, self._make_port = faults, layout, fabric, make_port
        self._turn_by_host = turn_by_host
        self._ports = [ports_of(fault.link, layout) for fault in faults]
        self._loss = dict.fromkeys((number for ports in self._ports for number in ports), 0.0)
        self._avoided: set[int] = set()
        times_s = {time for f in faults for time in (*_span_s(f, 0.0), *_span_s(f, f.reroute_s or 0.0))}
        self._times_ps = sorted(round(time * PS_PER_S) for time in times_s if time < math.inf)

    @property
    def next_ps(self) -> int:
        """When something changes next; NEVER_PS if nothing does."""
        return self._times_ps[0] if self._times_ps else NEVER_PS

    def apply(self, now_ps: int) -> None:
        """Do what is due."""
        while self.next_ps <= now_ps:
            self._times_ps.pop(0)
        active = [_is_within(fault, now_ps, 0.0) for fault in self._faults]
        for number, before in self._loss.items():
            found = zip(self._faults, self._ports, active, strict=True)
            share = 1 - math.prod(1 - f.loss for f, ports, acts in found if acts and number in ports)
            if share != before:
                self._loss[number] = share
                self._lose(number, share)
        avoided = {
            number
            for fault, ports in zip(self._faults, self._ports, strict=True)
            if fault.reroute_s is not None and _is_within(fault, now_ps, fault.reroute_s)
            for number in ports
        }
        if avoided != self._avoided:
            self._avoided = avoided
            route(self._fabric, Layout(self._without(avoided)), turn_by_host=self._turn_by_host)

    def _lose(self, number: int, share: float) -> None:
        link = self._layout.links[number]
        settings, discipline = self._make_port(link, number < len(self._layout.topology.hosts))
        settings.loss_q32 = round(share * ALL_Q32)
        self._fabric.change_port(number, on_link(settings, link), discipline)

    def _without(self, numbers: set[int]) -> Topology:
        first = len(self._layout.topology.hosts)
        ports = (
            replace(port, up=port.up and first + i not in numbers)
            for i, port in enumerate(self._layout.topology.ports)
        )
        return replace(self._layout.topology, ports=tuple(ports))


def faults_of(scenario: Scenario, layout: Layout, fabric: _fabric.Fabric, make_port: MakePort) -> Faults:
    """Return the faults of a scenario, with those of its start in force."""
    turn_by_host = scenario.simulator.multipath == "per-packet-and-host"
    faults = Faults(scenario.simulator.faults, layout, fabric, make_port, turn_by_host=turn_by_host)
    faults.apply(0)
    return faults


def ports_of(link: str, layout: Layout) -> list[int]:
    """Return the numbers of the ports at both ends of a link, or of parallel links, for example "s1-s5" or "h1-s1"."""
    numbers = []
    for number, port in enumerate(layout.links):
        of_host = number < len(layout.topology.hosts)
        ends = (port.peer, port.switch) if of_host else (port.switch, port.peer)
        if link in ("-".join(ends), "-".join(reversed(ends))):
            numbers.append(number)
    return numbers


def _span_s(fault: Fault, after_s: float) -> tuple[float, float]:
    return fault.start_s + after_s, (math.inf if fault.until_s is None else fault.until_s + after_s)


def _is_within(fault: Fault, now_ps: int, after_s: float) -> bool:
    begin_s, end_s = _span_s(fault, after_s)
    return round(begin_s * PS_PER_S) <= now_ps and (end_s == math.inf or now_ps < round(end_s * PS_PER_S))
