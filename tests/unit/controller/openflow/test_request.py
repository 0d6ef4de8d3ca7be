# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import pytest
from os_ken.ofproto import ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.openflow import (
    READING_METERS,
    VERSION,
    MessageType,
    Role,
    StatsType,
    counters_request,
    role_request,
    rules_request,
)
from sluice.controller.tables import COOKIE_TABLE_MASK, Table, cookie
from tests.fakes.openflow import Xids, frames


def test_role_request__is_what_os_ken_writes() -> None:
    request = role_request(Xids(), Role.SLAVE, 2**40 + 3)
    codec = ofproto_protocol.ProtocolDesc(version=VERSION)
    message = parser.OFPRoleRequest(codec, ofp.OFPCR_ROLE_SLAVE, 2**40 + 3)
    message.set_xid(request.first_xid)
    message.serialize()
    assert request.data == bytes(message.buf)


def test_rules_request__has_one_transaction_id_for_each_message() -> None:
    xids = Xids()
    for turn in range(2):
        request = rules_request(xids)
        sent = frames(request.data)
        assert [frame.xid for frame in sent] == [4 * turn + at for at in (1, 2, 3, 4)]
        assert [frame.kind for frame in sent] == [MessageType.MULTIPART_REQUEST] * 4
        kinds = (StatsType.GROUP_DESC, StatsType.METER_FEATURES, StatsType.METER_CONFIG, StatsType.FLOW)
        assert [frame.data[8:10] for frame in sent] == [struct.pack("!H", kind) for kind in kinds]
        subjects = ["reading groups", READING_METERS, READING_METERS, "reading rules"]
        assert [request.subject_of(frame.xid) for frame in sent] == subjects
        assert request.subject_of(sent[0].xid - 1) is request.subject_of(sent[-1].xid + 1) is None


@pytest.mark.parametrize("tags_below", [16, None])
def test_counters_request__selects_tags_by_the_cookie_mask(tags_below: int | None) -> None:
    (frame,) = frames(counters_request(Xids(), Table.INGRESS, tags_below=tags_below).data)
    wanted, mask = struct.unpack_from("!QQ", frame.data, 32)
    assert mask & COOKIE_TABLE_MASK == COOKIE_TABLE_MASK
    selected = [tag for tag in range(62) if cookie(Table.INGRESS, 3, tag, 1) & mask == wanted & mask]
    assert selected == list(range(tags_below or 62))
    assert cookie(Table.MAP, 3, 1) & mask != wanted & mask
