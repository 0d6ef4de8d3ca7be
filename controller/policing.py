# SPDX-License-Identifier: Apache-2.0
"""One switch's edge ports: do the tags of their hosts tell the truth, and what follows if they do not. Pure.

    counters by port × tag ─suspicion──▶ watched: counters by flow × tag ──breach──▶ demoted
    (every 500 ms, all ports at once)    (every 250 ms while any port is watched)

What a flow's counters say is compared with what an honest flow can have sent in the last WINDOW_NS and LAG_S before
that: Open vSwitch credits packets to rules up to half a second late, and then to those that it has by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from policy import tags
from policy.desired import Policy
from policy.graph import Port
from policy.sanctions import Conduct, Demoted, Treatment
from policy.tag_limits import Breach, breach, limits_bytes, payload_bytes, suspicion
from policy.thresholds import SlidingCounts, growth

MS = 1_000_000
INGRESS_POLL_NS = 500 * MS
ALL_TAGS_EVERY = 4
"""The others of these polls are of the tags below LOW_TAGS (up to 56 KB sent): a quarter of the counters."""
LOW_TAGS = 16
WITNESS_POLL_NS = 250 * MS
WINDOW_NS = 1_000 * MS
MOST_WATCHED = 2
"""Ports of a switch at once, demoted ones apart. On a fast link many honest connections are suspicious all day."""
LOOK_NS = 2_000 * MS
"""A watched port has so long, where others wait."""
LAG_S = 0.75
AGENTS_FOLLOW_NS = 10_000 * MS
"""A longer idle gap counts only after this long: agents take it up with a heartbeat, about every second."""


@dataclass
class FlowSeen:
    """A flow of a watched port: what the switch has counted of it, by tag."""

    port: int
    name: str
    """ "TCP 10.0.0.2:40000 > 10.0.0.1:80"."""
    age_s: float = 0.0
    """Of the oldest of its rules."""
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Cumulative packets and bytes by tag, of the rules that there are."""

    @property
    def size_bytes(self) -> int:
        return sum(size_bytes for _, size_bytes in self.counts.values())

    def by_tag(self) -> npt.NDArray[np.int64]:
        """Shape (2, 62)."""
        counts = np.zeros((2, tags.TAG_COUNT), np.int64)
        for tag, of_tag in self.counts.items():
            counts[:, tag] = of_tag
        return counts


@dataclass(frozen=True)
class Restored:
    port: str
    host: str
    reason: str


Verdict = Demoted | Restored


@dataclass(frozen=True)
class _Proof:
    flow: str
    breach: Breach
    duration_s: float

    @property
    def gravity(self) -> float:
        return self.breach.sent_bytes / self.breach.limit_bytes


class Policing:
    def __init__(self, ports: Sequence[Port], policy: Policy, offences: Mapping[str, int]) -> None:
        """`offences` of the ports that are demoted already, by port id."""
        self._port_of = {port.number: port for port in ports if port.edge}
        self.numbers = np.asarray(sorted(self._port_of), np.int64)
        """Edge ports: the rows of what is counted at the ingress."""
        self._rates_bps = np.asarray([self._port_of[n].rate_bps for n in self.numbers.tolist()], float)
        self._conduct = {
            number: Conduct(Treatment.DEMOTED, 0, offences[port.id]) if port.id in offences else Conduct()
            for number, port in self._port_of.items()
        }
        self._gap_ms, self._gap_from_ns = policy.idle_gap_ms, 0
        self._began_ns = 0
        self._judges_from_ns: int | None = 0
        """What was sent before is nobody's offence. None: from the next look on."""
        self._looked_ns: dict[int, int] = {}
        """When a port began to be watched, or ceased to be."""
        self._seen: dict[tuple[int, str], SlidingCounts] = {}
        """By port and flow."""
        self._last: dict[bool, tuple[int, npt.NDArray[np.int64]]] = {}
        """When the ingress was last looked at, and its counters; of all tags, and of the low ones."""
        self._verdicts: list[Verdict] = []
        self.adopt(policy)

    def adopt(self, policy: Policy) -> None:
        """Judge by this policy from now on. One whose tags decide nothing makes everybody free."""
        self._policy = policy
        self._gap_ms, self._gap_from_ns = min(self._gap_ms, policy.idle_gap_ms), 0
        if not self.polices:
            self._judges_from_ns = None
            for number, port in self._port_of.items():
                if self._conduct[number].treatment is Treatment.DEMOTED:
                    self._verdicts.append(Restored(port.id, port.peer, "the policy leaves tags alone"))
                self._conduct[number] = Conduct()

    @property
    def polices(self) -> bool:
        return bool(self._policy.tag_burst) and len(self.numbers) > 0

    def connected(self, now_ns: int) -> None:
        """A new connection: nobody has looked until now."""
        self._last, self._seen, self._began_ns = {}, {}, now_ns
        self._conduct = {number: conduct.resumed(now_ns) for number, conduct in self._conduct.items()}

    @property
    def treatments(self) -> dict[int, Treatment]:
        """Of the ports that are not free, by number."""
        return {n: c.treatment for n, c in self._conduct.items() if c.treatment is not Treatment.FREE}

    def verdicts(self) -> list[Verdict]:
        """What has been decided since the last time."""
        taken, self._verdicts = self._verdicts, []
        return taken

    # ── What is seen ───────────────────────────────────────────────────────────────────────────────────────────────

    def ingress(self, now_ns: int, counts: npt.NDArray[np.int64], *, all_tags: bool = True) -> None:
        """Take the cumulative packets and bytes of the edge ports by tag, shape (P, 2, 62); time passes.

        Unless they are of all tags, they are of those below LOW_TAGS: what gains most is looked at most often.
        """
        if self._judges_from_ns is None:
            self._judges_from_ns, self._last, self._seen = now_ns, {}, {}
        self._follow_gap(now_ns)
        low = counts.copy()
        low[:, :, LOW_TAGS:] = 0
        found = self._suspicion(now_ns, low, all_tags=False)
        if all_tags:
            found = np.maximum(found, self._suspicion(now_ns, counts, all_tags=True))
        suspects = {
            number: by
            for number, by in zip(self.numbers.tolist(), found.tolist(), strict=True)
            if by > 1 and self._conduct[number].treatment is not Treatment.DEMOTED
        }
        self._watch(now_ns, suspects)
        self._pass_time(now_ns)

    def _suspicion(
        self, now_ns: int, counts: npt.NDArray[np.int64], *, all_tags: bool
    ) -> npt.NDArray[np.float64]:
        """By what has been sent since the last time."""
        last = self._last.get(all_tags)
        self._last[all_tags] = (now_ns, counts)
        if last is None or now_ns <= last[0]:
            return np.zeros(len(self.numbers))
        grown = growth(last[1], counts)
        payload = payload_bytes(grown[:, 0], grown[:, 1])
        return suspicion(payload, self._rates_bps, (now_ns - last[0]) / 1e9, self._gap_ms, self._burst)

    def _pass_time(self, now_ns: int) -> None:
        for number, conduct in self._conduct.items():
            self._conduct[number] = after = conduct.after(now_ns)
            if conduct.treatment is Treatment.DEMOTED and after.treatment is not Treatment.DEMOTED:
                port = self._port_of[number]
                self._verdicts.append(Restored(port.id, port.peer, f"behaved for {conduct.term_s:g} s"))

    def _watch(self, now_ns: int, suspects: Mapping[int, float]) -> None:
        """Watch the most suspicious ports; each in its turn, where many are."""
        weight = {number: by * self._due(now_ns, number) for number, by in suspects.items()}
        watched = [n for n, conduct in self._conduct.items() if conduct.treatment is Treatment.WATCHED]
        chosen = sorted({*watched, *suspects}, key=lambda n: -weight.get(n, 0.0))[:MOST_WATCHED]
        for number in chosen:
            if number in suspects:
                self._conduct[number] = self._conduct[number].suspected(now_ns)
            if number not in watched:
                self._looked_ns[number] = now_ns
        for number in set(watched) - set(chosen):
            self._conduct[number] = self._conduct[number].released(now_ns)
            self._looked_ns[number] = now_ns

    def _due(self, now_ns: int, number: int) -> float:
        """A port gets its time, then others do; and the longer nobody has looked at it, the more it is due."""
        since_ns = now_ns - self._looked_ns.get(number, self._began_ns)
        if self._conduct[number].treatment is Treatment.WATCHED:
            return 4.0 if since_ns < LOOK_NS else 0.0
        return max(1.0, since_ns / LOOK_NS)

    def witnessed(self, now_ns: int, flows: Iterable[FlowSeen]) -> None:
        """Take the counters of the flows of watched ports: of all that the switch has learned."""
        before, self._seen = self._seen, {}
        proofs: dict[int, _Proof] = {}
        least = limits_bytes(LAG_S, self._gap_ms, self._burst).min()
        for flow in flows:
            key = (flow.port, flow.name)
            if flow.size_bytes < least and key not in before:
                continue  # most are
            seen = self._seen[key] = before.get(key) or self._counts_since(now_ns - int(flow.age_s * 1e9))
            seen.observe(now_ns, flow.by_tag())
            proof = self._judge(flow, seen)
            if proof is not None and (flow.port not in proofs or proof.gravity > proofs[flow.port].gravity):
                proofs[flow.port] = proof
        for number, proof in proofs.items():
            self._demote(now_ns, number, proof)

    def _counts_since(self, began_ns: int) -> SlidingCounts:
        """Of a flow that the switch has counted since then; what it sent before anybody was policed is its baseline."""
        seen = SlidingCounts(WINDOW_NS)
        if self._judges_from_ns is not None and began_ns >= self._judges_from_ns:
            seen.observe(began_ns, np.zeros((2, tags.TAG_COUNT), np.int64))
        return seen

    def _judge(self, flow: FlowSeen, seen: SlidingCounts) -> _Proof | None:
        if flow.port not in self.treatments or seen.grown is None:
            return None
        duration_s = seen.covered_ns / 1e9 + LAG_S
        found = breach(payload_bytes(*seen.grown), duration_s, self._gap_ms, self._burst)
        return None if found is None else _Proof(flow.name, found, duration_s)

    def _demote(self, now_ns: int, number: int, proof: _Proof) -> None:
        before = self._conduct[number]
        self._conduct[number] = before.proven(now_ns)
        if before.treatment is not Treatment.DEMOTED:
            self._verdicts.append(self._demoted(number, proof))

    def _demoted(self, number: int, proof: _Proof) -> Demoted:
        port, conduct = self._port_of[number], self._conduct[number]
        return Demoted(
            port=port.id,
            host=port.peer,
            flow=proof.flow,
            tag=proof.breach.tag,
            sent_bytes=round(proof.breach.sent_bytes),
            limit_bytes=round(proof.breach.limit_bytes),
            duration_s=round(proof.duration_s, 3),
            offences=conduct.offences,
            term_s=conduct.term_s,
        )

    @property
    def _burst(self) -> int:
        return self._policy.tag_burst or 0

    def _follow_gap(self, now_ns: int) -> None:
        if self._gap_ms == self._policy.idle_gap_ms:
            return
        self._gap_from_ns = self._gap_from_ns or now_ns + AGENTS_FOLLOW_NS
        if now_ns >= self._gap_from_ns:
            self._gap_ms = self._policy.idle_gap_ms
