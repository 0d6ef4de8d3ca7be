# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import struct

import pytest
from os_ken.ofproto import ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as ofp
from os_ken.ofproto import ofproto_v1_3_parser as parser

from sluice.controller.changes import diff
from sluice.controller.openflow.change import (
    ADD,
    MODIFY,
    change_requests,
    meter_delete,
    meter_mod,
    offers_meters,
    read_meters,
)
from sluice.controller.openflow.frames import VERSION, MessageType, ProtocolViolation
from sluice.controller.openflow.read import read_rules
from sluice.controller.policing.rules import EdgePorts, PortTreatments, policing_rules
from sluice.controller.rules import MeterRule, SwitchRules
from sluice.controller.tables import METER_SPACE
from sluice.policy.policing.limits import Treatment
from tests.fakes.openflow import Xids, frames, inners

CODEC = ofproto_protocol.ProtocolDesc(version=VERSION)
METER = MeterRule(METER_SPACE + 2, 1000, 160)
FLAGS = ofp.OFPMF_KBPS | ofp.OFPMF_BURST | ofp.OFPMF_STATS
BARRIER = MessageType.BARRIER_REQUEST


def config(meter: MeterRule, kind: int = ofp.OFPMBT_DROP) -> bytes:
    """Return the entry of a meter in a switch's reply."""
    band = struct.pack("!HHII4x", kind, 16, meter.rate_kbps, meter.burst_kbits)
    return struct.pack("!HHI", 24, FLAGS, meter.meter) + band


@pytest.mark.parametrize("command", [ADD, MODIFY])
def test_meter_mod__is_what_os_ken_writes(command: int) -> None:
    band = parser.OFPMeterBandDrop(METER.rate_kbps, METER.burst_kbits)
    expected = parser.OFPMeterMod(CODEC, command, FLAGS, METER.meter, [band])
    expected.set_xid(7)
    expected.serialize()
    assert meter_mod(command, METER, 7) == bytes(expected.buf)


def test_meter_delete__is_what_os_ken_writes() -> None:
    expected = parser.OFPMeterMod(CODEC, ofp.OFPMC_DELETE, 0, METER.meter, [])
    expected.set_xid(7)
    expected.serialize()
    assert meter_delete(METER.meter, 7) == bytes(expected.buf)


def test_read_meters__returns_what_was_written_and_knows_other_kinds_as_foreign() -> None:
    remark = config(METER, ofp.OFPMBT_DSCP_REMARK)
    assert read_meters(config(METER)) == (METER,)
    assert read_meters(remark) == (MeterRule(METER.meter, 0, 0),)
    assert read_rules(b"", b"", 0, config(METER)).meters == (METER,)


def test_read_meters__beside_the_tables_of_others_only_those_of_sluice() -> None:
    body = config(MeterRule(1, 5, 5)) + config(METER)
    assert len(read_meters(body)) == 2
    assert read_meters(body, first_table=10) == (METER,)


@pytest.mark.parametrize("body", [b"\0", struct.pack("!HHI", 7, 0, 1), struct.pack("!HHI", 24, 0, 1)])
def test_read_meters__refuses_a_wrong_length(body: bytes) -> None:
    with pytest.raises(ProtocolViolation, match="a meter"):
        read_meters(body)


@pytest.mark.parametrize(
    ("most", "bands", "offers"), [(8, 1 << 1, True), (0, 1 << 1, False), (8, 1 << 2, False)]
)
def test_offers_meters__only_those_that_drop(most: int, bands: int, offers: bool) -> None:
    assert offers_meters(struct.pack("!IIIBBxx", most, bands, 0, 1, 0)) is offers


def test_offers_meters__not_without_an_answer() -> None:
    assert not offers_meters(b"")
    with pytest.raises(ProtocolViolation, match="15 bytes"):
        offers_meters(bytes(15))


def rules_of(treated: PortTreatments) -> SwitchRules:
    return policing_rules(treated, EdgePorts())


def test_change_requests__a_meter_exists_before_its_rules_and_after_them() -> None:
    free, limited = (
        rules_of(PortTreatments()),
        rules_of(PortTreatments({2: Treatment.DEMOTED}, {2: 1_000_000})),
    )
    begins, fill, commit = change_requests(Xids(), diff(free, limited), 1)
    assert [frame.kind for frame in frames(begins.data)] == [MessageType.METER_MOD, BARRIER]
    assert len(inners(fill.data)) == 7
    assert begins.last_xid < fill.first_xid < fill.last_xid < commit.first_xid
    fill, _, ends = change_requests(Xids(), diff(limited, free), 1)
    assert len(inners(fill.data)) == 7
    assert [frame.kind for frame in frames(ends.data)] == [MessageType.METER_MOD, BARRIER]
    assert begins.subject_of(begins.first_xid) == "changing meters"


def test_change_requests__a_meter_alone_needs_no_bundle() -> None:
    slow, fast = (SwitchRules(meters=(MeterRule(1, rate, 160),)) for rate in (10, 20))
    (only,) = change_requests(Xids(), diff(slow, fast), 1)
    assert [frame.kind for frame in frames(only.data)] == [MessageType.METER_MOD, BARRIER]
