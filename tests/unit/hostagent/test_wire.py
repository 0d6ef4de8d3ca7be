# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.hostagent.wire import HEADER_BYTES, NOTICE_BYTES, BadMessage, Header, Notice
from sluice.policy.units import MIN_FLOW_BYTES

U64 = st.integers(0, 2**64 - 1)


@given(U64, st.integers(HEADER_BYTES, 2**64 - 1), U64, U64, st.booleans())
def test_header_comes_back(
    sequence: int, size_bytes: int, started_ns: int, deadline_us: int, ends_with_fin: bool
) -> None:
    header = Header(sequence, size_bytes, started_ns, deadline_us, ends_with_fin)
    assert len(header.pack()) == HEADER_BYTES
    assert Header.unpack(header.pack()) == header


@given(U64, U64, U64, U64, st.booleans())
def test_notice_comes_back(
    sequence: int, arrived_ns: int, answered_ns: int, machine: int, kernel_stamp: bool
) -> None:
    notice = Notice(sequence, arrived_ns, answered_ns, machine, kernel_stamp)
    assert len(notice.pack()) == NOTICE_BYTES
    assert Notice.unpack(notice.pack()) == notice


def test_the_shortest_flow_of_a_workload_has_room_for_the_header() -> None:
    assert HEADER_BYTES <= MIN_FLOW_BYTES


@given(st.binary(min_size=HEADER_BYTES, max_size=HEADER_BYTES))
def test_unpack__garbage_is_rejected(data: bytes) -> None:
    with pytest.raises(BadMessage):
        Header.unpack(data)


def test_unpack__another_version_is_named() -> None:
    data = bytearray(Notice(1, 2, 3, 4, True).pack())
    data[4] = 9
    with pytest.raises(BadMessage, match="version 9"):
        Notice.unpack(data)


def test_endless__comes_back_and_needs_a_fin() -> None:
    assert Header.unpack(Header(1, 64, 0, 0, True, True).pack()).endless
    with pytest.raises(BadMessage, match="never ends"):
        Header.unpack(Header(1, 64, 0, 0, False, True).pack())


def test_unpack__a_flow_shorter_than_its_header() -> None:
    data = Header(1, HEADER_BYTES, 0, 0, True).pack()
    with pytest.raises(BadMessage, match="shorter"):
        Header.unpack(data[:16] + (HEADER_BYTES - 1).to_bytes(8, "big") + data[24:])
