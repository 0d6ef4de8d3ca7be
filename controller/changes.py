# SPDX-License-Identifier: Apache-2.0
"""From what a switch holds to what it should hold: the rules, groups and meters to add, modify and delete.

Nothing that is right is touched. A modified rule keeps its counters and its age.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluice.controller.pipeline import map_rule
from sluice.controller.rules import FlowRule, GroupRule, MeterRule, SwitchRules
from sluice.policy import tags
from sluice.policy.schema.desired import QueueMap


@dataclass(frozen=True)
class Changes:
    """Rules, groups and meters to add, modify and delete."""

    add: tuple[FlowRule, ...] = ()
    modify: tuple[FlowRule, ...] = ()
    delete: tuple[FlowRule, ...] = ()
    add_groups: tuple[GroupRule, ...] = ()
    modify_groups: tuple[GroupRule, ...] = ()
    delete_groups: tuple[int, ...] = ()
    add_meters: tuple[MeterRule, ...] = ()
    modify_meters: tuple[MeterRule, ...] = ()
    delete_meters: tuple[int, ...] = ()

    @property
    def bundled(self) -> int:
        """The number of changes that fit into a bundle: all but those of meters."""
        flows = len(self.add) + len(self.modify) + len(self.delete)
        return flows + len(self.add_groups) + len(self.modify_groups) + len(self.delete_groups)

    def __len__(self) -> int:
        return self.bundled + len(self.add_meters) + len(self.modify_meters) + len(self.delete_meters)


def diff(installed: SwitchRules, desired: SwitchRules) -> Changes:
    """Return the changes that turn the installed rules into the desired ones."""
    held = {rule.key: rule for rule in installed.flows}
    want = {rule.key: rule for rule in desired.flows}
    missing = [rule for key, rule in want.items() if key not in held]
    different = [rule for key, rule in want.items() if key in held and held[key] != rule]
    # OpenFlow cannot modify a cookie. Adding a rule with the same key replaces the old rule and
    # its cookie.
    replaced = [rule for rule in different if held[rule.key].cookie != rule.cookie]
    held_groups = {group.group: group for group in installed.groups}
    want_groups = {group.group: group for group in desired.groups}
    held_meters = {meter.meter: meter for meter in installed.meters}
    want_meters = {meter.meter: meter for meter in desired.meters}
    return Changes(
        add=(*missing, *replaced),
        modify=tuple(rule for rule in different if held[rule.key].cookie == rule.cookie),
        delete=tuple(rule for key, rule in held.items() if key not in want),
        add_groups=tuple(group for number, group in want_groups.items() if number not in held_groups),
        modify_groups=tuple(g for n, g in want_groups.items() if n in held_groups and held_groups[n] != g),
        delete_groups=tuple(number for number in held_groups if number not in want_groups),
        add_meters=tuple(meter for number, meter in want_meters.items() if number not in held_meters),
        modify_meters=tuple(m for n, m in want_meters.items() if n in held_meters and held_meters[n] != m),
        delete_meters=tuple(number for number in held_meters if number not in want_meters),
    )


@dataclass(frozen=True, eq=False)
class Remap:
    """Map rules that get another queue, as columns of equal length.

    Columns instead of rules, because a threshold change touches up to ports × tags rules at once.
    """

    ports: npt.NDArray[np.int64]
    codes: npt.NDArray[np.int64]
    queues: npt.NDArray[np.int64]
    priority_tags: bool = True

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
    priority_tags: bool = True,
) -> Remap:
    """Return the map rules of these ports whose queue changes. The maps are in their order."""
    held, desired = (np.asarray(maps, np.int64).reshape(-1, tags.TAG_COUNT) for maps in (before, after))
    row, code = np.nonzero(held != desired)
    return Remap(np.asarray(ports, np.int64)[row], code, desired[row, code], priority_tags)
