# SPDX-License-Identifier: Apache-2.0
"""One switch's edge ports: whether their hosts' tags are true, and what follows if not. Pure.

Tags of attained service are compared with what the switch counts, urgency tags with what the hosts' agents report.

    counters by port × tag ─suspicion──▶ watched: counters by flow × tag ──breach──▶ demoted
    (every 500 ms, all ports at once)    (every 250 ms while any port is watched)

A flow's counters are compared with what an honest flow can have sent in the last WINDOW_NS and in
LAG_S before that. LAG_S allows for Open vSwitch, which credits packets to rules up to half a
second late, and then to the rules that exist by then.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from sluice.controller.openflow.counters import FlowCounts, Ints
from sluice.controller.policing.rules import PortTreatments
from sluice.policy import tags
from sluice.policy.network.graph import Port, Topology
from sluice.policy.policing import limits, urgency
from sluice.policy.policing.limits import Breach, Demoted, HostState, Treatment
from sluice.policy.policing.urgency import Explained, UrgencyReport
from sluice.policy.schema.desired import Policy
from sluice.policy.thresholds.adaptation import SlidingCounts, growth
from sluice.policy.units import MSS_BYTES

MS = 1_000_000
INGRESS_POLL_NS = 500 * MS
ALL_TAGS_EVERY = 4
"""Every fourth ingress poll reads all tags. The others read the tags below LOW_TAGS, a quarter."""
LOW_TAGS = 16
"""Tags below this one are of the first 56 KB of a flow: false ones gain most."""
LEARNED_POLL_NS = 250 * MS
WINDOW_NS = 1_000 * MS
MAX_WATCHED = 2
"""Ports that are watched at once on a switch, demoted ones not counted.

On a fast link many honest connections together look suspicious all the time.
"""
TURN_NS = 2_000 * MS
"""How long a port is watched before another suspicious port takes its place."""
LAG_S = 0.75
AGENTS_FOLLOW_NS = 10_000 * MS
"""A longer idle gap counts after this time, because agents adopt it with a heartbeat, about 1 s.
"""


# ── Urgency ─────────────────────────────────────────────────────────────────────────────────────────


ALL_URGENT = "all urgent packets"
"""What stands for a flow where urgency is proven wrong: the sum of a port's flows proves it."""
_URGENT = slice(tags.URGENCY_FIRST, tags.URGENCY_LAST + 1)


def urgency_by_port(
    topology: Topology, ports: Sequence[Port], reports: Mapping[str, UrgencyReport]
) -> dict[int, Explained]:
    """Return what explains the urgency at each of these ports that has a host with an agent, by port number."""
    numbers = {port.id: port.number for port in ports}
    reports_at: dict[int, dict[str, UrgencyReport]] = {}
    for name, report in reports.items():
        if name in topology.host_by_name and (number := numbers.get(topology.edge_port(name).id)) is not None:
            reports_at.setdefault(number, {})[name] = report
    return {number: urgency.explained(by_agent) for number, by_agent in reports_at.items()}


class Urgency:
    """The accounts of all edge ports of a switch, as rows."""

    def __init__(self, rates_bps: npt.NDArray[np.float64]) -> None:
        self._accounts = [urgency.UrgencyAccount(rate_bps) for rate_bps in rates_bps.tolist()]
        self._budgets = [urgency.UrgencyBudget(rate_bps) for rate_bps in rates_bps.tolist()]
        self.explained: list[Explained] | None = None
        """What agents explain, by row. None until the first reports: nothing is judged before."""
        self._while_demoted = np.zeros(len(self._accounts))
        """Urgent payload that arrived while a port was demoted."""
        self._seen: dict[tuple[int, str], int] = {}
        """(port number, flow) → its urgent payload so far."""

    def restart(self) -> None:
        """Forget all counters."""
        self._seen = {}
        self._while_demoted[:] = 0.0
        for account, budget in zip(self._accounts, self._budgets, strict=True):
            account.close()
            budget.close()

    @property
    def spent_rows(self) -> list[int]:
        """The rows whose budget of urgent payload is spent."""
        return [row for row, budget in enumerate(self._budgets) if budget.is_spent]

    def observe_demoted(self, flows: Iterable[FlowCounts], row_of: Mapping[int, int]) -> None:
        """Take the flows of demoted ports, whose tags do not arrive at the ingress. `row_of` these port numbers."""
        before, self._seen = self._seen, {}
        urgent = range(_URGENT.start, _URGENT.stop)
        for flow in flows:
            if flow.port in row_of:
                counts = (flow.by_tag[tag] for tag in urgent if tag in flow.by_tag)
                # The least payload that the flow has sent under urgency tags.
                payload = sum(max(0, size - limits.MAX_HEADER_BYTES * packets) for packets, size in counts)
                key = flow.port, flow.name
                self._seen[key] = payload
                self._while_demoted[row_of[flow.port]] += max(0, payload - before.get(key, payload))

    def observe(
        self, now_ns: int, counts: Ints, reserved: Collection[int], share: float
    ) -> Iterator[tuple[int, Breach, float]]:
        """Take packets and bytes by tag, shape (P, 2, 62). Yields row, breach and seconds where urgency is unexplained.

        `reserved`: DSCPs that are no tags. `share`: part of the link that may be urgent.
        """
        payload = limits.payload_bytes(counts[:, 0], counts[:, 1])
        payload[:, list(reserved)] = 0.0
        arrived = (payload[:, _URGENT].sum(axis=1) + self._while_demoted).tolist()
        for row, budget in enumerate(self._budgets):
            budget.observe(now_ns, arrived[row], share)
        if self.explained is None:
            return
        for row, account in enumerate(self._accounts):
            unexplained = account.observe(now_ns, arrived[row], self.explained[row])
            if unexplained is not None:
                tag = tags.URGENCY_FIRST + int(payload[row, _URGENT].argmax())
                exceeded = Breach(tag, unexplained.sent_bytes, unexplained.limit_bytes)
                yield row, exceeded, unexplained.duration_s


# ── Hosts ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Restored:
    """A host is no longer demoted."""

    port: str
    host: str
    reason: str


@dataclass(frozen=True)
class UrgencyBudgeted:
    """A host has spent its budget of urgent packets, or has a budget again."""

    port: str
    host: str
    is_spent: bool


Verdict: TypeAlias = Demoted | Restored | UrgencyBudgeted


@dataclass(frozen=True)
class _Proof:
    flow: str
    breach: Breach
    duration_s: float

    @property
    def excess(self) -> float:
        """How many times more was sent than is possible."""
        return self.breach.sent_bytes / self.breach.limit_bytes


class HostPolicing:
    def __init__(
        self,
        ports: Sequence[Port],
        policy: Policy,
        offences: Mapping[str, int],
        measured_burst_bytes: int = MSS_BYTES,
    ) -> None:
        """`offences`: port id → offences, of the ports that are demoted already. The burst: as for `adopt`."""
        self._port_of = {port.number: port for port in ports if port.edge and not port.uplink}
        self.port_numbers: Ints = np.asarray(sorted(self._port_of), np.int64)
        """Of the edge ports: the rows of the counters at the ingress."""
        rates_bps = [self._port_of[number].rate_bps for number in self.port_numbers.tolist()]
        self._rates_bps = np.asarray(rates_bps, float)
        self._state_of = {
            number: HostState(Treatment.DEMOTED, 0, offences[port.id]) if port.id in offences else HostState()
            for number, port in self._port_of.items()
        }
        self._gap_ms, self._gap_from_ns = policy.idle_gap_ms, 0
        self._began_ns = 0
        self._judges_from_ns: int | None = 0
        """Earlier packets are no offence. None: policing begins with the next ingress counters."""
        self._turn_ns: dict[int, int] = {}
        """Port number → when the port began or ceased to be watched."""
        self._windows: dict[tuple[int, str], SlidingCounts] = {}
        """(port number, flow) → counters of the flow."""
        self._latest: dict[bool, tuple[int, Ints]] = {}
        """(time, counters) of the latest ingress poll: of all tags, and of the low ones."""
        self._verdicts: list[Verdict] = []
        self._urgency = Urgency(self._rates_bps)
        self._spent: frozenset[int] = frozenset()
        """Numbers of the ports whose urgent packets count as untagged."""
        self.has_meters = True
        """Whether the switch has meters."""
        self.adopt(policy, measured_burst_bytes)

    def adopt(self, policy: Policy, measured_burst_bytes: int = MSS_BYTES) -> None:
        """Judge by this policy. If its tags decide nothing, every host becomes free.

        `measured_burst_bytes`: the most payload under one tag that an agent reports of its host. It counts unless
        the policy has a tag_burst.
        """
        self._policy, self._measured_burst_bytes = policy, measured_burst_bytes
        self._gap_ms, self._gap_from_ns = min(self._gap_ms, policy.idle_gap_ms), 0
        if not self.polices:
            self._judges_from_ns = None
            self._urgency.restart()
            self._spend()
            for number, port in self._port_of.items():
                if self._state_of[number].treatment is Treatment.DEMOTED:
                    reason = "the policy does not police tags"
                    self._verdicts.append(Restored(port.id, port.peer, reason))
                self._state_of[number] = HostState()

    @property
    def polices(self) -> bool:
        scheme = self._policy.definition
        # A level promises nothing about the bytes that a flow has sent.
        promises = scheme.queue_rule.reads_tags and not scheme.has_levels
        return promises and self._policy.tag_burst != 0 and len(self.port_numbers) > 0

    def connected(self, now_ns: int) -> None:
        """Begin with a new connection: there are no earlier counters, and terms begin again."""
        self._latest, self._windows, self._began_ns = {}, {}, now_ns
        self._urgency.restart()
        self._spend()
        self._state_of = {number: state.resumed(now_ns) for number, state in self._state_of.items()}

    @property
    def treatments(self) -> dict[int, Treatment]:
        """Port number → treatment, of the ports that are not free."""
        return {
            number: state.treatment
            for number, state in self._state_of.items()
            if state.treatment is not Treatment.FREE
        }

    @property
    def treated(self) -> PortTreatments:
        """The treatment of all edge ports, with the limits of demoted hosts."""
        treatments = self.treatments
        limits_bps = {
            number: rate_bps
            for number, how in treatments.items()
            if how is Treatment.DEMOTED and (rate_bps := self._limit_bps(number)) is not None
        }
        return PortTreatments(treatments, limits_bps, self._spent)

    def _limit_bps(self, number: int) -> int | None:
        """Return the most that a demoted host at this port may send; None without a limit."""
        share, rate_bps = self._policy.demoted_share, self._port_of[number].rate_bps
        return round(share * rate_bps) if self.has_meters and share is not None and share < 1 else None

    def take_verdicts(self) -> list[Verdict]:
        """Return the verdicts since the last call."""
        taken, self._verdicts = self._verdicts, []
        return taken

    # ── Suspicion ───────────────────────────────────────────────────────────────────────────────

    def observe_ingress(self, now_ns: int, counts: Ints, *, all_tags: bool = True) -> None:
        """Take packets and bytes of the edge ports by tag, shape (P, 2, 62), and end terms.

        Unless `all_tags`, only the tags below LOW_TAGS are valid.
        """
        if self._judges_from_ns is None:
            self._judges_from_ns, self._latest, self._windows = now_ns, {}, {}
        if self._gap_ms != self._policy.idle_gap_ms:
            # It counts once the agents follow it.
            self._gap_from_ns = self._gap_from_ns or now_ns + AGENTS_FOLLOW_NS
            if now_ns >= self._gap_from_ns:
                self._gap_ms = self._policy.idle_gap_ms
        low = counts.copy()
        low[:, :, LOW_TAGS:] = 0
        excesses = self._suspicion(now_ns, low, all_tags=False)
        if all_tags:
            excesses = np.maximum(excesses, self._suspicion(now_ns, counts, all_tags=True))
            self._check_urgency(now_ns, counts)
        suspects = {
            number: excess
            for number, excess in zip(self.port_numbers.tolist(), excesses.tolist(), strict=True)
            if excess > 1 and self._state_of[number].treatment is not Treatment.DEMOTED
        }
        self._watch(now_ns, suspects)
        for number, state in self._state_of.items():
            self._state_of[number] = after = state.after(now_ns)
            was, is_now = state.treatment, after.treatment
            if was is Treatment.DEMOTED and is_now is not Treatment.DEMOTED:
                port, reason = self._port_of[number], f"behaved for {state.term_s:g} s"
                self._verdicts.append(Restored(port.id, port.peer, reason))

    def _suspicion(self, now_ns: int, counts: Ints, *, all_tags: bool) -> npt.NDArray[np.float64]:
        """Return how many times too much each port has sent since the latest poll, shape (P,)."""
        latest = self._latest.get(all_tags)
        self._latest[all_tags] = (now_ns, counts)
        if latest is None or now_ns <= latest[0]:
            return np.zeros(len(self.port_numbers))
        grown = growth(latest[1], counts)
        payload = limits.payload_bytes(grown[:, 0], grown[:, 1])
        duration_s = (now_ns - latest[0]) / 1e9
        return limits.suspicion(payload, self._rates_bps, duration_s, *self._promises)

    # ── Urgency ─────────────────────────────────────────────────────────────────────────────────

    def explain_urgency(self, by_port: Mapping[int, Explained]) -> None:
        """Take what agents explain, by port number."""
        self._urgency.explained = [
            by_port.get(number, urgency.NOTHING) for number in self.port_numbers.tolist()
        ]

    def _check_urgency(self, now_ns: int, counts: Ints) -> None:
        """Demote the hosts whose urgency no deadline explains."""
        if not self._policy.definition.tags_deadlines or self._policy.only_watches:
            self._urgency.restart()
            self._spend()
            return
        reserved, share = self._policy.reserved_dscp, self._policy.urgent_share or 1.0
        for row, exceeded, duration_s in self._urgency.observe(now_ns, counts, reserved, share):
            self._demote(now_ns, int(self.port_numbers[row]), _Proof(ALL_URGENT, exceeded, duration_s))
        self._spend()

    def _spend(self) -> None:
        """Note the ports whose budget of urgent payload is spent. At a demoted port it makes no difference."""
        before = self._spent
        self._spent = frozenset(self.port_numbers[self._urgency.spent_rows].tolist())
        for number in sorted(before ^ self._spent):
            port = self._port_of[number]
            self._verdicts.append(UrgencyBudgeted(port.id, port.peer, is_spent=number in self._spent))

    def _watch(self, now_ns: int, suspects: Mapping[int, float]) -> None:
        """Watch the most suspicious ports, and each in its turn if there are many."""
        weight = {number: by * self._priority(now_ns, number) for number, by in suspects.items()}
        watched = [number for number, state in self._state_of.items() if state.treatment is Treatment.WATCHED]
        ranked = sorted({*watched, *suspects}, key=lambda number: -weight.get(number, 0.0))
        chosen = ranked[:MAX_WATCHED]
        for number in chosen:
            if number in suspects:
                self._state_of[number] = self._state_of[number].suspected(now_ns)
            if number not in watched:
                self._turn_ns[number] = now_ns
        for number in set(watched) - set(chosen):
            self._state_of[number] = self._state_of[number].released(now_ns)
            self._turn_ns[number] = now_ns

    def _priority(self, now_ns: int, number: int) -> float:
        """Return a factor: high during a port's turn, then 0; growing while the port waits."""
        since_ns = now_ns - self._turn_ns.get(number, self._began_ns)
        if self._state_of[number].treatment is Treatment.WATCHED:
            return 4.0 if since_ns < TURN_NS else 0.0
        return max(1.0, since_ns / TURN_NS)

    # ── Proof ───────────────────────────────────────────────────────────────────────────────────

    def observe_flows(self, now_ns: int, flows: Iterable[FlowCounts]) -> None:
        """Take the counters of all flows of watched ports."""
        flows = list(flows)
        numbers = enumerate(self.port_numbers.tolist())
        demoted = {n: row for row, n in numbers if self._state_of[n].treatment is Treatment.DEMOTED}
        self._urgency.observe_demoted(flows, demoted)
        before, self._windows = self._windows, {}
        proofs: dict[int, _Proof] = {}
        least = limits.limits_bytes(LAG_S, *self._promises).min()
        for flow in flows:
            key = (flow.port, flow.name)
            if flow.size_bytes < least and key not in before:
                continue  # too small to prove anything, as most flows are
            window = before.get(key) or self._window_since(now_ns - int(flow.age_s * 1e9))
            self._windows[key] = window
            window.observe(now_ns, flow.as_array())
            proof = self._judge(flow, window)
            strongest = proofs.get(flow.port)
            if proof is not None and (strongest is None or proof.excess > strongest.excess):
                proofs[flow.port] = proof
        for number, proof in proofs.items():
            self._demote(now_ns, number, proof)

    def _window_since(self, began_ns: int) -> SlidingCounts:
        """Return the window of a flow that the switch has counted since then.

        If policing began later, the flow's first counters are the baseline instead of zero.
        """
        window = SlidingCounts(WINDOW_NS)
        if self._judges_from_ns is not None and began_ns >= self._judges_from_ns:
            window.observe(began_ns, np.zeros((2, tags.TAG_COUNT), np.int64))
        return window

    def _judge(self, flow: FlowCounts, window: SlidingCounts) -> _Proof | None:
        if flow.port not in self.treatments or window.grown is None:
            return None
        duration_s = window.covered_ns / 1e9 + LAG_S
        exceeded = limits.breach(limits.payload_bytes(*window.grown), duration_s, *self._promises)
        return None if exceeded is None else _Proof(flow.name, exceeded, duration_s)

    def _demote(self, now_ns: int, number: int, proof: _Proof) -> None:
        before = self._state_of[number]
        self._state_of[number] = state = before.proven(now_ns)
        if before.treatment is not Treatment.DEMOTED:
            self._verdicts.append(
                Demoted(
                    port=self._port_of[number].id,
                    host=self._port_of[number].peer,
                    flow=proof.flow,
                    tag=proof.breach.tag,
                    sent_bytes=round(proof.breach.sent_bytes),
                    limit_bytes=round(proof.breach.limit_bytes),
                    duration_s=round(proof.duration_s, 3),
                    offences=state.offences,
                    term_s=state.term_s,
                    rate_bps=self._limit_bps(number),
                )
            )

    # ── Policy ──────────────────────────────────────────────────────────────────────────────────

    @property
    def _promises(self) -> tuple[int, int, tuple[int, ...]]:
        """What limits payload under a tag: the idle gap in ms, the burst in bytes, and the reserved DSCPs."""
        return self._gap_ms, self._policy.tag_burst or self._measured_burst_bytes, self._policy.reserved_dscp
