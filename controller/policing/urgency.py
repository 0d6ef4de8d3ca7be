# SPDX-License-Identifier: Apache-2.0
"""The urgency tags that arrive at a switch's edge ports, compared with what the agents of their hosts report. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from sluice.controller.counts import FlowCounts, Ints
from sluice.policy import tags
from sluice.policy.network.graph import Port, Topology
from sluice.policy.policing.limits import MAX_HEADER_BYTES, Breach, payload_bytes
from sluice.policy.policing.urgency import Explained, UrgencyAccount, UrgencyBudget, UrgencyReport, explained

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
    return {number: explained(by_agent) for number, by_agent in reports_at.items()}


class Urgency:
    """The accounts of all edge ports of a switch, as rows."""

    def __init__(self, rates_bps: npt.NDArray[np.float64]) -> None:
        self._accounts = [UrgencyAccount(rate_bps) for rate_bps in rates_bps.tolist()]
        self._budgets = [UrgencyBudget(rate_bps) for rate_bps in rates_bps.tolist()]
        self._explained: list[Explained] | None = None
        """None until the first reports: nothing is judged before."""
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
                payload = sum(max(0, size - MAX_HEADER_BYTES * packets) for packets, size in counts)
                key = flow.port, flow.name
                self._seen[key] = payload
                self._while_demoted[row_of[flow.port]] += max(0, payload - before.get(key, payload))

    def explain(self, by_row: list[Explained]) -> None:
        """Take what agents explain."""
        self._explained = by_row

    def observe(
        self, now_ns: int, counts: Ints, reserved: Collection[int], share: float
    ) -> Iterator[tuple[int, Breach, float]]:
        """Take packets and bytes by tag, shape (P, 2, 62). Yields row, breach and seconds where urgency is unexplained.

        `reserved`: DSCPs that are no tags. `share`: part of the link that may be urgent.
        """
        payload = payload_bytes(counts[:, 0], counts[:, 1])
        payload[:, list(reserved)] = 0.0
        arrived = (payload[:, _URGENT].sum(axis=1) + self._while_demoted).tolist()
        for row, budget in enumerate(self._budgets):
            budget.observe(now_ns, arrived[row], share)
        if self._explained is None:
            return
        for row, account in enumerate(self._accounts):
            unexplained = account.observe(now_ns, arrived[row], self._explained[row])
            if unexplained is not None:
                tag = tags.URGENCY_FIRST + int(payload[row, _URGENT].argmax())
                exceeded = Breach(tag, unexplained.sent_bytes, unexplained.limit_bytes)
                yield row, exceeded, unexplained.duration_s
