# SPDX-License-Identifier: Apache-2.0
"""Policing as the overlay of a switch's rules: counters in, rules and verdicts out.

`NetworkPolicing` makes the overlays of all switches. It is what the rest of the controller knows of policing.
"""

from collections.abc import Callable, Mapping

from sluice.controller.changes import Changes
from sluice.controller.openflow import counters
from sluice.controller.pipeline import learning_ports
from sluice.controller.policing import hosts
from sluice.controller.policing.hosts import HostPolicing, Verdict
from sluice.controller.policing.rules import EdgePorts, PortTreatments, policing_rules, treatment_changes
from sluice.controller.reporting import Reporter
from sluice.controller.rules import SwitchRules
from sluice.controller.state import Desired, Periods, Poll, RuleOverlay
from sluice.controller.tables import Table
from sluice.policy.network.graph import Topology, ingress_groups
from sluice.policy.policing.limits import Demoted, Treatment
from sluice.policy.policing.urgency import UrgencyReport
from sluice.policy.schema.desired import Policy
from sluice.store.totals import HOSTS_DEMOTED, Tally

READ_ALL_TAGS = Poll(Table.INGRESS)
READ_LOW_TAGS = Poll(Table.INGRESS, hosts.LOW_TAGS)
READ_FLOWS = Poll(Table.FLOWS)


class PolicingOverlay(RuleOverlay):
    """Polls the edge ports of one switch, judges their hosts, and treats them accordingly."""

    def __init__(
        self, switch: str, desired: Desired, on_verdict: Callable[[str, Verdict], None], phase: float = 0.0
    ) -> None:
        """`on_verdict` takes the switch's name and a verdict. `phase`: as for the switch's state."""
        self._switch, self._on_verdict = switch, on_verdict
        self._topology, self._policy = desired.topology, desired.policy
        self._ports = desired.topology.ports_of[switch]
        self.hosts = HostPolicing(self._ports, desired.policy, desired.offences, desired.tag_burst_bytes)
        self._in_force = PortTreatments()
        """Treatment that the rules in force implement. That of a new connection is not known."""
        self._changing: PortTreatments | None = None
        """Treatment of the running change."""
        self._periods = Periods(
            {Table.INGRESS: hosts.INGRESS_POLL_NS, Table.FLOWS: hosts.LEARNED_POLL_NS}, phase
        )
        self._ingress_polls = 0

    def adopt(self, topology: Topology, policy: Policy, tag_burst_bytes: int) -> None:
        self._topology, self._policy = topology, policy
        self.hosts.adopt(policy, tag_burst_bytes)
        self.report()

    def connected(self, now_ns: int) -> None:
        self.hosts.connected(now_ns)
        self._periods.restart(now_ns)
        self._ingress_polls = 0

    def set_meters(self, *, available: bool) -> None:
        self.hosts.has_meters = available

    # ── Rules ───────────────────────────────────────────────────────────────────────────────────

    def begin_all(self, pipeline: SwitchRules) -> SwitchRules:
        self._changing = self.hosts.treated
        return pipeline.overlaid(policing_rules(self._changing, self._edge_ports()))

    @property
    def outdated(self) -> bool:
        return self._in_force != self.hosts.treated

    def begin_differences(self) -> Changes:
        self._changing = self.hosts.treated
        return treatment_changes(self._in_force, self._changing, self._edge_ports())

    def _edge_ports(self) -> EdgePorts:
        learning = learning_ports(self._topology, self._switch)
        vlans = bool(self._topology.vlans)
        return EdgePorts(ingress_groups(self._ports), learning, self._policy.reserved_dscp, vlans)

    def applied(self) -> None:
        if self._changing is not None:
            self._in_force, self._changing = self._changing, None

    # ── Counters ────────────────────────────────────────────────────────────────────────────────

    def next_poll(self, now_ns: int) -> Poll | None:
        if not self.hosts.polices:
            return None
        if self._in_force.treatments and self._periods.take(Table.FLOWS, now_ns):
            return READ_FLOWS
        if self._periods.take(Table.INGRESS, now_ns):
            self._ingress_polls += 1
            return READ_ALL_TAGS if self._ingress_polls % hosts.ALL_TAGS_EVERY == 0 else READ_LOW_TAGS
        return None

    def observe(self, now_ns: int, poll: Poll, statistics: bytes) -> int:
        if poll == READ_FLOWS:
            flows, entries = counters.learned_flows(statistics)
            self.hosts.observe_flows(now_ns, flows)
        else:
            counts = counters.carried_counts(statistics, self.hosts.port_numbers)
            self.observe_ingress(now_ns, counts, all_tags=poll == READ_ALL_TAGS)
            entries = counts.entries
        self.report()
        return entries

    def observe_ingress(self, now_ns: int, counts: counters.CounterReply, *, all_tags: bool) -> None:
        """Take packets and bytes by edge port and tag. A reply without some port is ignored."""
        if counts.reported.all():
            self.hosts.observe_ingress(now_ns, counts.values, all_tags=all_tags)

    def explain_urgency(self, reports: Mapping[str, UrgencyReport]) -> None:
        """Take what the agents report about urgency tags, by agent."""
        self.hosts.explain_urgency(hosts.urgency_by_port(self._topology, self._ports, reports))

    # ── Verdicts ────────────────────────────────────────────────────────────────────────────────

    @property
    def demoted_ports(self) -> list[str]:
        """Ids of the ports whose hosts are demoted."""
        treatments = self.hosts.treatments
        return [port.id for port in self._ports if treatments.get(port.number) is Treatment.DEMOTED]

    def report(self) -> None:
        """Hand over the verdicts since the last call."""
        for verdict in self.hosts.take_verdicts():
            self._on_verdict(self._switch, verdict)


class NetworkPolicing:
    """Policing at all switches that this controller leads."""

    def __init__(self, reporter: Reporter, tally: Tally) -> None:
        self._reporter, self._tally = reporter, tally
        self._overlays: list[PolicingOverlay] = []

    def overlay(self, switch: str, desired: Desired, phase: float) -> PolicingOverlay:
        """Return the overlay of another switch of the network."""
        self._overlays.append(PolicingOverlay(switch, desired, self._report, phase))
        return self._overlays[-1]

    def begin(self) -> None:
        """Report what has become of the hosts that were demoted before this controller began."""
        for overlay in self._overlays:
            overlay.report()
        self._reporter.demoted_ports([port for overlay in self._overlays for port in overlay.demoted_ports])

    def clear(self) -> None:
        """Forget all switches."""
        self._overlays.clear()

    def explain_urgency(self, reports: Mapping[str, UrgencyReport]) -> None:
        """Take what the agents report about urgency tags, by agent."""
        for overlay in self._overlays:
            overlay.explain_urgency(reports)

    def _report(self, switch: str, verdict: Verdict) -> None:
        if isinstance(verdict, Demoted):
            self._tally.count(HOSTS_DEMOTED, host=verdict.host)
        self._reporter.verdict(switch, verdict)
