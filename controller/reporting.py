# SPDX-License-Identifier: Apache-2.0
"""What has happened, as rows of the store and events for operators."""

import logging
import time
from collections.abc import Mapping, Sequence

from sluice.controller.network import News
from sluice.controller.openflow.counters import QueueCounts
from sluice.controller.policing.hosts import Restored, UrgencyBudgeted, Verdict
from sluice.controller.port_settings import ThresholdsInForce
from sluice.controller.recorder import Recorder
from sluice.controller.state import Desired, SwitchState
from sluice.policy.policing.limits import Demoted
from sluice.store import desired as desired_rows
from sluice.store import observed
from sluice.store.observed import PortSample, Sanction, ThresholdChange

log = logging.getLogger(__name__)

REPEAT_S = 60.0
"""Between two events about the same two switches with one datapath id."""


class Reporter:
    """Belongs to the event-loop thread: it hands rows to the recorder and never waits."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._duplicates_at_s: dict[tuple[int, str], float] = {}
        """(datapath id, refused host) → when that was last reported."""
        self._versions: dict[int, int | None] = {}
        """Datapath id → policy version in its row."""

    def leading(self, generation: int) -> None:
        self._event("leading", generation=generation)

    # ── Switches ────────────────────────────────────────────────────────────────────────────────

    def switch(self, dpid: int, name: str, *, connected: bool, version: int | None) -> None:
        """Record a switch's connection and the policy version that its rules implement."""
        self._versions[dpid] = version
        self._recorder.record(observed.put_switch, dpid, name, connected=connected, policy_version=version)

    def recorded_version(self, dpid: int) -> int | None:
        """Return the policy version in the switch's row."""
        return self._versions.get(dpid)

    def connected(self, dpid: int, name: str) -> None:
        self._event("switch-connected", switch=name, dpid=dpid)

    def disconnected(self, dpid: int, name: str) -> None:
        log.warning("%s is disconnected", name)
        self._event("switch-disconnected", switch=name, dpid=dpid)

    def unknown_switch(self, dpid: int) -> None:
        log.warning("switch %#x is not in the topology: ignored", dpid)
        self._event("unknown-switch", dpid=dpid)

    def duplicate(self, dpid: int, established: str, refused: str, now_s: float) -> None:
        """Report two live switches with one datapath id, by their places, at most once in REPEAT_S."""
        key = (dpid, refused.rpartition(":")[0])  # each of its connections has another port
        recent = {k: at for k, at in self._duplicates_at_s.items() if now_s - at < REPEAT_S}
        if key in recent:
            return
        self._duplicates_at_s = recent | {key: now_s}
        text = "two switches have the datapath id %#x: %s stays, %s is refused"
        log.error(text, dpid, established, refused)
        self._event("duplicate-datapath-id", dpid=dpid, established=established, refused=refused)

    def network(self, news: News) -> None:
        """Record the graph, the sightings, and what now contradicts the description or no longer does."""
        if news.topology is not None:
            self._recorder.put_topology(news.topology)
        self._recorder.record(observed.put_sightings, news.sightings)
        for finding in news.appeared:
            if finding.is_error:
                log.warning("network: %s", finding)
                self._event(
                    "network-problem", problem=finding.kind, where=finding.where, text=finding.problem
                )
        for finding in news.solved:
            if finding.is_error:
                self._event("network-solved", problem=finding.kind, where=finding.where)

    def change_refused(self, switch: str, error: str, subject: str) -> None:
        log.error("%s answers with an error: %s (%s)", switch, error, subject)
        self._event("openflow-error", switch=switch, error=error, rule=subject)

    # ── Policies ────────────────────────────────────────────────────────────────────────────────

    def idle_overrides(self, desired: Desired) -> None:
        """Report overrides that name no port of the network: they are most likely typos."""
        port_ids = desired.topology.port_by_id
        for override in desired.policy.overrides:
            if not any(override.names(port_id) for port_id in port_ids):
                names = ", ".join(override.ports)
                log.warning("overrides: no port of this network is named %s", names)
                self._event("idle-override", version=desired.version, ports=list(override.ports))

    def refused(self, desired: Desired, problem: str) -> None:
        """Report that the network cannot carry out the policy."""
        self._event("policy-refused", version=desired.version, scheme=desired.policy.scheme, problem=problem)

    def applied(self, desired: Desired, switches: int) -> None:
        """Report that all switches implement the policy."""
        log.info("policy version %d is applied by %d switches", desired.version, switches)
        self._recorder.record(desired_rows.mark_applied, desired.version)
        self._event("policy-applied", version=desired.version, scheme=desired.policy.scheme)

    # ── Ports and hosts ─────────────────────────────────────────────────────────────────────────

    def thresholds(self, news: Sequence[ThresholdsInForce]) -> None:
        at_s = time.time()
        changes = [ThresholdChange(at_s, n.port, n.version, n.thresholds_bytes, n.flows) for n in news]
        if changes:
            self._recorder.record_rows(observed.add_thresholds, changes)

    def queues(self, state: SwitchState, counts: Mapping[int, QueueCounts]) -> None:
        """Record queue counters by port number; ports outside the topology are left out."""
        at_s = time.time()
        samples = [
            PortSample(at_s, port, count.size_bytes, count.packets)
            for number, count in counts.items()
            if (port := state.port_id(number))
        ]
        if samples:
            self._recorder.record_rows(observed.add_port_samples, samples)

    def verdict(self, switch: str, verdict: Verdict) -> None:
        match verdict:
            case Demoted():
                log.warning("%s: %s is demoted: %s", switch, verdict.host, verdict)
                row = Sanction(since=time.time(), **vars(verdict))
                self._recorder.record(observed.put_sanction, row)
                self._event("host-demoted", **vars(verdict))
            case Restored():
                log.info("%s: %s is restored: %s", switch, verdict.host, verdict.reason)
                self._recorder.record(observed.lift_sanctions, [verdict.port])
                self._event("host-restored", **vars(verdict))
            case UrgencyBudgeted(port, host, is_spent):
                words = "counts as untagged: more than its share" if is_spent else "counts again"
                log.info("%s: the urgency of %s %s", switch, host, words)
                kind = "urgency-spent" if is_spent else "urgency-regained"
                self._event(kind, port=port, host=host)

    def demoted_ports(self, port_ids: Sequence[str]) -> None:
        """Remove the sanctions of all other ports."""
        self._recorder.record(observed.lift_all_but, port_ids)

    def _event(self, kind: str, **document: object) -> None:
        self._recorder.record(observed.add_event, kind, **document)
