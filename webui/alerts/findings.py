# SPDX-License-Identifier: Apache-2.0
"""What the rules find now: in the flows of the last minutes, in the agents' heartbeats, in what the port agents report
of their machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from sluice.policy.alert_rules import OF_FLOWS, AlertRule, Figure, time_text
from sluice.policy.alerts import Finding
from sluice.policy.figures.validity import Flaw
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import ALL, SIZE_CLASSES
from sluice.store.flow_columns import FlowColumns
from sluice.store.observed import AgentRow
from sluice.webui.documents import AGENT_LATE_S

MOST_FLAWS = 3
"""The most reasons that one finding names."""

FlowsSince = Callable[[float], FlowColumns]


def findings(
    rules: Sequence[AlertRule],
    flows_since: FlowsSince,
    agents: Sequence[AgentRow],
    flaws: Sequence[Flaw],
    *,
    now: float,
    age_s: float,
) -> list[Finding]:
    """Return what each rule finds. `now`: epoch seconds; `age_s`: reading of the store's clock."""
    found: list[Finding] = []
    windows_s = [rule.window_s for rule in rules if rule.watches in OF_FLOWS]
    flows = flows_since(now - max(windows_s)) if windows_s else FlowColumns.from_rows([])
    windows: dict[tuple[str, float], FlowColumns] = {}
    for rule in rules:
        if rule.watches in OF_FLOWS:
            key = rule.source, rule.window_s
            if key not in windows:  # most rules have the same
                windows[key] = _window(flows.of_traffic(rule.source), now - rule.window_s)
            found.append(flow_finding(rule, windows[key]))
        elif rule.watches is Figure.AGENT:
            found += _agents_down(rule, agents, age_s)
        else:
            found.append(_not_valid(rule, flaws))
    return found


def _window(flows: FlowColumns, since: float) -> FlowColumns:
    chosen = flows.at > since
    return flows if chosen.all() else flows.where(chosen)


def flow_finding(rule: AlertRule, flows: FlowColumns) -> Finding:
    """Return what a rule finds in the flows of its window."""
    value, count = _figure(rule, flows)
    window = time_text(rule.window_s * US_PER_S)
    if value is None or count < rule.least_flows:
        text = f"{count} {_kind_of_flows(rule)} ended in the last {window}: too few, {rule.least_flows} are needed"
        return Finding(rule, False, text, flows=count)
    limit = rule.limit_value
    text = (
        f"{_said(rule, value)} of {count} {_kind_of_flows(rule)} in the last {window}; the limit is"
        f" {_number(rule, limit)}"
    )
    return Finding(rule, value > limit, text, _REMEDIES[rule.watches], value=value, flows=count)


def _figure(rule: AlertRule, flows: FlowColumns) -> tuple[float | None, int]:
    """Return the figure, and from how many flows it is."""
    chosen: NDArray[np.bool_] | slice = slice(None)
    if rule.size_class != ALL:
        chosen = np.equal(flows.size_class, SIZE_CLASSES.index(rule.size_class))
    if rule.watches is Figure.MISSES:
        count = int(flows.has_deadline[chosen].sum())
        return (int(flows.missed[chosen].sum()) / count if count else None), count
    return _p99((flows.fct_us if rule.watches is Figure.FCT else flows.slowdown)[chosen])


def _p99(values: NDArray[np.float64]) -> tuple[float | None, int]:
    known = values[~np.isnan(values)]
    return (float(np.percentile(known, 99)) if len(known) else None), len(known)


_REMEDIES = {
    Figure.MISSES: "look for a full port, and lower the load; a scheme that knows deadlines (sluice, d2tcp) meets more",
    Figure.FCT: "look for a full port, and compare schemes in the scoreboard; raise the limit for a slow network",
    Figure.SLOWDOWN: "look for a full port; with several queues (pias, sluice), small flows pass large ones",
}


def _said(rule: AlertRule, value: float) -> str:
    what = {Figure.MISSES: "the deadline was missed by", Figure.FCT: "the p99 of the FCT is"}
    return f"{what.get(rule.watches, 'the p99 of the slowdown is')} {_number(rule, value)}"


def _number(rule: AlertRule, value: float) -> str:
    if rule.watches is Figure.MISSES:
        return f"{100 * value:.3g} %"
    return time_text(value) if rule.watches is Figure.FCT else f"{value:.3g}"


def _kind_of_flows(rule: AlertRule) -> str:
    words = [
        rule.source if rule.source != ALL else "",
        rule.size_class if rule.size_class != ALL else "",
        "flows",
        "with a deadline" if rule.watches is Figure.MISSES else "",
    ]
    return " ".join(word for word in words if word)


def _agents_down(rule: AlertRule, agents: Sequence[AgentRow], age_s: float) -> Iterator[Finding]:
    for row in agents:
        silent_s = max(0.0, age_s - row.seen_s)
        yield Finding(
            rule,
            silent_s >= AGENT_LATE_S,
            f"the agent {row.name} ({row.kind}) has sent no heartbeat for {time_text(silent_s * US_PER_S)}",
            "look at its log and restart it; if its host is gone for good, `sluice revoke` its certificate",
            subject=row.name,
            value=round(silent_s, 1),
        )


def _not_valid(rule: AlertRule, flaws: Sequence[Flaw]) -> Finding:
    if not flaws:
        return Finding(rule, False, "nothing says that the figures show the machine and not the network")
    more = f"; and {len(flaws) - MOST_FLAWS} more reasons" if len(flaws) > MOST_FLAWS else ""
    return Finding(
        rule,
        True,
        "the figures are not valid: " + "; ".join(flaw.problem for flaw in flaws[:MOST_FLAWS]) + more,
        "; ".join(dict.fromkeys(flaw.remedy for flaw in flaws)),
    )
