# SPDX-License-Identifier: Apache-2.0
"""The rules of alerts: which figure may reach which limit, and for how long."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import TableOf, entries, entry
from sluice.policy.schema.kinds import Choice, Duration, Kind, ListOf, Number, Schema, Text, Whole
from sluice.policy.units import NS_PER_S, US_PER_S
from sluice.policy.wire.records import ALL, SIZE_CLASSES, TRAFFIC

MOST_RULES = 64
LONGEST_WINDOW_S = 900
"""The web process keeps the flows of a little more than this time in memory."""


class Figure(StrEnum):
    """What a rule watches."""

    MISSES = "deadline-misses"
    FCT = "fct-p99"
    SLOWDOWN = "slowdown-p99"
    AGENT = "agent-down"
    INVALID = "not-valid"


OF_FLOWS = frozenset({Figure.MISSES, Figure.FCT, Figure.SLOWDOWN})
"""Figures of the flows of a window. They have a limit and a least number of flows."""

_SHARE = Number(0, 1)
_FACTOR = Number(1, 1e6)
_FCT = Duration(1000, 86_400 * NS_PER_S, to="us", whole=False)
_LIMIT_KINDS: Mapping[Figure, Kind] = {
    Figure.MISSES: _SHARE,
    Figure.FCT: _FCT,
    Figure.SLOWDOWN: _FACTOR,
}


@dataclass(frozen=True)
class Limit(Kind):
    """The limit of a rule. Which form is allowed depends on the rule's figure, which checks it."""

    name: ClassVar[str] = "limit"

    def read(self, where: str, value: object) -> float | str:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise self.refuse(where, value)
        return value

    @property
    def allowed(self) -> str:
        return 'a share such as 0.05 (deadline-misses), a time such as "50ms" (fct-p99), or a factor (slowdown-p99)'

    def schema(self) -> Schema:
        return {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1e6}, _FCT.schema()]}


@dataclass(frozen=True)
class AlertRule:
    """A rule. It has one alert, or with the figure agent-down one for each agent."""

    name: str = entry(
        Text(r"[a-z0-9][a-z0-9-]{0,39}", what="1 to 40 small letters, digits or -"),
        "Name of the alert. Each rule has another one.",
    )
    figure: str = entry(
        Choice(tuple(Figure)),
        "What the rule watches. `not-valid` watches whether the page's figures show the network or the machine.",
    )
    limit: float | str | None = entry(
        Limit(), "The alert fires above this. Only for the figures of flows.", default=None
    )
    size_class: str = entry(
        Choice((ALL, *SIZE_CLASSES)), "Whose FCT or slowdown counts: flows of this size.", default=ALL
    )
    source: str = entry(
        Choice(tuple(TRAFFIC)),
        "Whose flows count: those of a schedule, those of your programs, or both.",
        default=ALL,
    )
    window_s: float = entry(
        Duration(NS_PER_S, LONGEST_WINDOW_S * NS_PER_S, to="s", whole=False),
        "Length of the window, which ends now. Flows that ended in it count.",
        key="window",
        default=60.0,
    )
    for_s: float = entry(
        Duration(0, 86_400 * NS_PER_S, to="s", whole=False),
        "How long the figure must be above the limit before the alert fires, and below it before the alert resolves.",
        key="for",
        default=30.0,
    )
    least_flows: int = entry(
        Whole(1, 100_000), "With fewer flows in the window, the figure does not count.", default=100
    )

    @property
    def watches(self) -> Figure:
        return Figure(self.figure)

    @property
    def limit_value(self) -> float:
        """The limit as a number: a share, microseconds or a factor; NaN for a figure without a limit."""
        kind = _LIMIT_KINDS.get(self.watches)
        return float(kind.read("limit", self.limit)) if kind else float("nan")

    def to_document(self) -> dict[str, Any]:
        """JSON-ready form, which `rules_from` accepts."""
        return {one.key: _written(one.kind, getattr(self, one.name)) for one in entries(AlertRule)}


def _written(kind: Kind, value: Any) -> Any:
    return kind.show(value).strip('"') if isinstance(kind, Duration) else value


RULES = ListOf(TableOf(AlertRule), longest=MOST_RULES)
"""The kind of a list of rules."""

DEFAULT_RULES = (
    AlertRule("deadlines-missed", Figure.MISSES, 0.05, least_flows=50),
    AlertRule("small-flows-late", Figure.FCT, "1s", size_class="small", least_flows=300),
    AlertRule("medium-flows-late", Figure.FCT, "30s", size_class="medium", least_flows=300),
    AlertRule("small-flows-slowed", Figure.SLOWDOWN, 50, size_class="small", for_s=60.0, least_flows=300),
    AlertRule("agent-down", Figure.AGENT),
    AlertRule("figures-not-valid", Figure.INVALID, for_s=10.0),
)
"""A p99 needs 300 flows: of 100, it is the slowest one."""


def rules_from(where: str, value: object) -> tuple[AlertRule, ...]:
    """Check a list of rules. Raises FieldError that names the place and the key."""
    rules: tuple[AlertRule, ...] = RULES.read(where, value)
    for problem in rule_problems(where, rules):
        raise problem
    return rules


def rule_problems(where: str, rules: Sequence[AlertRule]) -> Iterable[FieldError]:
    """Yield what is wrong between the keys of a rule, and between rules."""
    names: set[str] = set()
    for index, rule in enumerate(rules):
        place = f"{where}[{index}]"
        yield from _limit_problem(place, rule)
        if rule.name in names:
            yield FieldError(f"{place}.name", f'"{rule.name}" is also an earlier rule; choose another name')
        names.add(rule.name)


def _limit_problem(place: str, rule: AlertRule) -> Iterable[FieldError]:
    kind = _LIMIT_KINDS.get(rule.watches)
    if kind is None:
        if rule.limit is not None:
            yield FieldError(f"{place}.limit", f"the figure {rule.figure} has no limit; omit limit")
    elif rule.limit is None:
        yield FieldError(f"{place}.limit", f"is missing; for {rule.figure} it must be {kind.allowed}")
    else:
        try:
            kind.read(f"{place}.limit", rule.limit)
        except FieldError as error:
            yield FieldError(f"{place}.limit", f"{error.problem} (figure {rule.figure})")


def time_text(time_us: float) -> str:
    """Return a time with three digits: 12.3 ms, 1.5 s, 5 min."""
    for unit, scale in (("min", 60.0 * US_PER_S), ("s", float(US_PER_S)), ("ms", 1e3)):
        if time_us >= scale * (2 if unit == "min" else 1):
            return f"{time_us / scale:.3g} {unit}"
    return f"{time_us:.3g} us"
