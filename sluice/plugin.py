# SPDX-License-Identifier: Apache-2.0
"""All that a plugin may import. Other modules are not public: they change without notice.

`docs/how-to/plugins.md` explains every name.
"""

from sluice.policy import controls, tags
from sluice.policy.controls import Need
from sluice.policy.network.graph import Links, Topology, host, switch
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Choice, Duration, Flag, Number, Rate, Size, Whole
from sluice.policy.schemes import SCHEMES
from sluice.policy.schemes.ports import MarkBy
from sluice.policy.schemes.queues import QueueMap, QueueRule, demotion_levels, merged_map, urgency_levels
from sluice.policy.schemes.table import Marking, Scheme, ThresholdRule
from sluice.runtime.control_files import read as control_file
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
    "control_file",
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
