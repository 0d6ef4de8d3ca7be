# SPDX-License-Identifier: Apache-2.0
"""All that a plugin may import. Other modules are not public: they change without notice.

`docs/how-to/plugins.md` explains every name.
"""

from __future__ import annotations

from sluice.policy import controls, tags
from sluice.policy.entries import entry
from sluice.policy.graph import Topology, host, switch
from sluice.policy.kinds import Choice, Duration, Flag, Number, Rate, Size, Whole
from sluice.policy.links import Links
from sluice.policy.marking import MarkBy
from sluice.policy.needs import Need
from sluice.policy.queue_rules import QueueMap, QueueRule, demotion_levels, merged_map, urgency_levels
from sluice.policy.schemes import SCHEMES
from sluice.policy.schemes.scheme import Marking, Scheme, ThresholdRule
from sluice.topologies.wiring import core_link, host_link

__all__ = [
    "SCHEMES",
    "Choice",
    "Duration",
    "Flag",
    "Links",
    "MarkBy",
    "Marking",
    "Need",
    "Number",
    "QueueMap",
    "QueueRule",
    "Rate",
    "Scheme",
    "Size",
    "ThresholdRule",
    "Topology",
    "Whole",
    "controls",
    "core_link",
    "demotion_levels",
    "entry",
    "host",
    "host_link",
    "merged_map",
    "switch",
    "tags",
    "urgency_levels",
]
