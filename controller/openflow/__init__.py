# SPDX-License-Identifier: Apache-2.0
"""The OpenFlow 1.3 codec: the only package that knows os-ken's message classes. Pure.

frames    bytes with a header: cut out of a stream, joined from several parts
entries   entries of statistics replies, with every length checked
request   requests: polls, barriers, roles
answers   what a switch sends, as values
change    changes of rules into flow-mods, group-mods and bundles
read      replies into rules and groups
counters  replies into counters by port, tag, queue and flow
learn     the action by which a switch counts flows
"""

from controller.openflow.answers import (
    Answer,
    AnswerReader,
    BarrierReply,
    BundleReply,
    ErrorReply,
    RoleReply,
    RoleStatus,
    StatsReply,
    is_port_description,
)
from controller.openflow.change import (
    change_requests,
    discard_message,
    group_mod,
    remap_requests,
    rule_body,
)
from controller.openflow.counters import carried_counts, completed_counts, learned_flows, queue_counts
from controller.openflow.frames import (
    VERSION,
    Frame,
    Framer,
    MessageType,
    ProtocolViolation,
    StatsType,
    message,
)
from controller.openflow.learn import MAX_LEARNED
from controller.openflow.read import read_rules
from controller.openflow.request import (
    Request,
    Role,
    XidSource,
    carried_request,
    completed_request,
    ingress_request,
    learned_request,
    queues_request,
    role_request,
    rules_request,
)

__all__ = [
    "MAX_LEARNED",
    "VERSION",
    "Answer",
    "AnswerReader",
    "BarrierReply",
    "BundleReply",
    "ErrorReply",
    "Frame",
    "Framer",
    "MessageType",
    "ProtocolViolation",
    "Request",
    "Role",
    "RoleReply",
    "RoleStatus",
    "StatsReply",
    "StatsType",
    "XidSource",
    "carried_counts",
    "carried_request",
    "change_requests",
    "completed_counts",
    "completed_request",
    "discard_message",
    "group_mod",
    "ingress_request",
    "is_port_description",
    "learned_flows",
    "learned_request",
    "message",
    "queue_counts",
    "queues_request",
    "read_rules",
    "remap_requests",
    "role_request",
    "rule_body",
    "rules_request",
]
