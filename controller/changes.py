# SPDX-License-Identifier: Apache-2.0
"""From what a switch holds to what it should hold: the rules, groups and meters to add, modify and delete.

Nothing that is right is touched. A modified rule keeps its counters and its age.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sluice.controller.pipeline import PriorityTag, map_rule
from sluice.controller.rules import NO_RULES, FlowRule, GroupRule, MeterRule, SwitchRules
from sluice.policy import tags
from sluice.policy.schema.desired import QueueMap


@dataclass(frozen=True)
class Changes:
    """Rules, groups and meters to add, modify and delete."""

    add: SwitchRules = NO_RULES
    modify: SwitchRules = NO_RULES
    delete: SwitchRules = NO_RULES

    @property
    def bundled(self) -> int:
        """The number of changes that fit into a bundle: all but those of meters."""
        return sum(len(part.flows) + len(part.groups) for part in (self.add, self.modify, self.delete))

    def __len__(self) -> int:
        return self.bundled + sum(len(part.meters) for part in (self.add, self.modify, self.delete))


def diff(installed: SwitchRules, desired: SwitchRules) -> Changes:
    """Return the changes that turn the installed rules into the desired ones."""
    groups = _differences(installed.groups, desired.groups)
    flows = _differences(installed.flows, desired.flows)
    meters = _differences(installed.meters, desired.meters)
    return Changes(*(SwitchRules(*parts) for parts in zip(groups, flows, meters, strict=True)))


Kind = TypeVar("Kind", FlowRule, GroupRule, MeterRule)


def _differences(held: Iterable[Kind], wanted: Iterable[Kind]) -> tuple[tuple[Kind, ...], ...]:
    """Return which of these to add, to modify and to delete."""
    before, after = {rule.key: rule for rule in held}, {rule.key: rule for rule in wanted}
    add = [rule for key, rule in after.items() if key not in before]
    modify: list[Kind] = []
    for key, rule in after.items():
        old = before.get(key, rule)
        # OpenFlow cannot modify a cookie. Adding a rule with the same key replaces the old rule and its cookie.
        if isinstance(old, FlowRule) and isinstance(rule, FlowRule) and old.cookie != rule.cookie:
            add.append(rule)
        elif old != rule:
            modify.append(rule)
    return tuple(add), tuple(modify), tuple(rule for key, rule in before.items() if key not in after)


@dataclass(frozen=True, eq=False)
class Remap:
    """Map rules that get another queue, as columns of equal length.

    Columns instead of rules, because a threshold change touches up to ports × tags rules at once.
    """

    ports: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    queues: npt.NDArray[np.int64]
    priority_tags: int = PriorityTag.PUSHED

    def __len__(self) -> int:
        return len(self.ports)

    @property
    def bundled(self) -> int:
        """The number of changes that fit into a bundle: all."""
        return len(self)

    def rule(self, at: int) -> FlowRule:
        port, code, queue = int(self.ports[at]), int(self.codes[at]), int(self.queues[at])
        return map_rule(port, code, queue, priority_tag=self.priority_tags)


def remap(
    ports: Sequence[int],
    before: Sequence[QueueMap],
    after: Sequence[QueueMap],
    *,
    priority_tags: int = PriorityTag.PUSHED,
) -> Remap:
    """Return the map rules of these ports whose queue changes. The maps are in their order."""
    held, desired = (np.asarray(maps, np.int64).reshape(-1, tags.TAG_COUNT) for maps in (before, after))
    row, code = np.nonzero(held != desired)
    return Remap(np.asarray(ports, np.int64)[row], code, desired[row, code], priority_tags)
