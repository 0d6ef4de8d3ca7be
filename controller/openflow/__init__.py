# SPDX-License-Identifier: Apache-2.0
"""The OpenFlow 1.3 codec: the only package that knows os-ken's message classes. Pure.

frames    bytes with a header: cut out of a stream, joined from several parts; entries of statistics replies
request   requests: polls, barriers, roles
answers   what a switch sends, as values: results, errors, ports, and LLDP frames by which links are found
change    changes of rules into flow-mods, group-mods, meter-mods and bundles; messages for switches that Sluice leaves
read      replies into rules and groups
counters  replies into counters by port, tag, queue and flow
learn     the actions by which a switch counts flows and remembers hosts, and the hosts that it remembers
"""

from sluice.controller.openflow.answers import (
    Answer,
    AnswerReader,
    BarrierReply,
    BundleReply,
    ErrorReply,
    Neighbour,
    PortDescription,
    PortReason,
    PortStatus,
    RoleReply,
    RoleStatus,
    StatsReply,
    announcement,
    is_port_description,
)
from sluice.controller.openflow.change import (
    change_requests,
    discard_message,
    group_mod,
    lldp_rule_message,
    offers_meters,
    release_message,
    remap_requests,
    rule_body,
)
from sluice.controller.openflow.counters import carried_counts, completed_counts, learned_flows, queue_counts
from sluice.controller.openflow.frames import (
    VERSION,
    Frame,
    Framer,
    MessageType,
    ProtocolViolation,
    StatsType,
    message,
)
from sluice.controller.openflow.learn import HOST_TIMEOUT_S, MAX_LEARNED, learned_hosts
from sluice.controller.openflow.read import read_rules
from sluice.controller.openflow.request import (
    READING_METERS,
    Request,
    Role,
    XidSource,
    counters_request,
    queues_request,
    role_request,
    rules_request,
)

__all__ = [
    "HOST_TIMEOUT_S",
    "MAX_LEARNED",
    "READING_METERS",
    "VERSION",
    "Answer",
    "AnswerReader",
    "BarrierReply",
    "BundleReply",
    "ErrorReply",
    "Frame",
    "Framer",
    "MessageType",
    "Neighbour",
    "PortDescription",
    "PortReason",
    "PortStatus",
    "ProtocolViolation",
    "Request",
    "Role",
    "RoleReply",
    "RoleStatus",
    "StatsReply",
    "StatsType",
    "XidSource",
    "announcement",
    "carried_counts",
    "change_requests",
    "completed_counts",
    "counters_request",
    "discard_message",
    "group_mod",
    "is_port_description",
    "learned_flows",
    "learned_hosts",
    "lldp_rule_message",
    "message",
    "offers_meters",
    "queue_counts",
    "queues_request",
    "read_rules",
    "release_message",
    "remap_requests",
    "role_request",
    "rule_body",
    "rules_request",
]
