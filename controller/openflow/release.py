# SPDX-License-Identifier: Apache-2.0
"""Messages for switches that Sluice leaves, and for those that are not in the graph yet."""

from __future__ import annotations

from os_ken.ofproto import ofproto_v1_3 as ofp

from sluice.controller.conduct import METER_SPACE, lldp_rules
from sluice.controller.cookies import COOKIE_SPACE, COOKIE_SPACE_MASK
from sluice.controller.forwarding import GROUP_SPACE
from sluice.controller.openflow.change import FLOW_MOD, flow_mod, group_delete, rule_body, shifted
from sluice.controller.openflow.frames import MessageType, message
from sluice.controller.openflow.meters import meter_delete
from sluice.controller.openflow.request import XidSource
from sluice.controller.rules import FlowRule, Output
from sluice.controller.tables import NORMAL

MAX_RELEASED_GROUPS = 1024
MAX_RELEASED_METERS = 1024


def lldp_rule_message(xids: XidSource, first_table: int = 0) -> bytes:
    """Return the message that makes a switch send the controller's LLDP frames back to it."""
    (rule,) = lldp_rules()
    return flow_mod(ofp.OFPFC_ADD, shifted(rule, first_table), xids.reserve_xids(1))


def release_message(xids: XidSource, *, bridges: bool) -> bytes:
    """Return the messages that remove all rules, groups and meters of Sluice from a switch.

    `bridges`: the switch then forwards by its own table of addresses, as one without a controller.
    """
    numbers = (GROUP_SPACE + i for i in range(1, MAX_RELEASED_GROUPS))
    groups = b"".join(group_delete(number, xids.reserve_xids(1)) for number in numbers)
    meters = b"".join(
        meter_delete(METER_SPACE + port, xids.reserve_xids(1)) for port in range(1, MAX_RELEASED_METERS)
    )
    match = rule_body(FlowRule(0, 0, ()))
    where = (ofp.OFPTT_ALL, ofp.OFPFC_DELETE, 0, 0, 0)
    filters = (ofp.OFP_NO_BUFFER, ofp.OFPP_ANY, ofp.OFPG_ANY)
    head = FLOW_MOD.pack(COOKIE_SPACE << 48, COOKIE_SPACE_MASK, *where, *filters, 0)
    removal = message(MessageType.FLOW_MOD, head + match, xids.reserve_xids(1))
    normal = FlowRule(0, 0, (), (Output(NORMAL),))
    bridging = flow_mod(ofp.OFPFC_ADD, normal, xids.reserve_xids(1)) if bridges else b""
    return removal + bridging + groups + meters
