# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno
import math
import os
import socket
import struct
from datetime import timedelta
from typing import Any

import pytest

from sluice.hostagent.sockets import (
    FLOW,
    STATE,
    DeclaredFlow,
    FlowQuenched,
    NoAgent,
    Phase,
    WrongField,
    declare,
    declared,
    pack_flow,
    state,
    undeclare,
)
from sluice.policy.errors import FieldError, SluiceError


class FakeSocket:
    """A socket that answers like the kernel, or refuses with an errno."""

    def __init__(self, answer: bytes = b"", refuses: int = 0, protocol: int = socket.IPPROTO_TCP) -> None:
        self.answer, self.refuses, self.protocol = answer, refuses, protocol
        self.values: list[bytes] = []

    def getsockopt(self, level: int, option: int, room: int) -> bytes:
        if level == socket.SOL_SOCKET:
            return struct.pack("=i", self.protocol if option == socket.SO_PROTOCOL else 0)
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        assert len(self.answer) == room
        return self.answer

    def setsockopt(self, level: int, option: int, value: bytes) -> None:
        assert (level, option) == (0x5C1C, 1)
        if self.refuses:
            raise OSError(self.refuses, os.strerror(self.refuses))
        self.values.append(value)


def test_layouts__have_the_documented_sizes() -> None:
    assert (FLOW.size, STATE.size) == (56, 64)


def test_pack_flow__every_field_in_its_unit() -> None:
    value = pack_flow(
        size_bytes=7,
        deadline_s=0.025,
        elapsed_s=0.001,
        importance=2.5,
        importance_share=0.25,
        quench="suspend",
        congestion_control="sluice_datcp",
    )
    assert FLOW.unpack(value) == (31, 2, 7, 25_000_000, 1_000_000, 2500, 250, b"sluice_datcp\0\0\0\0")


def test_pack_flow__nothing_declared_and_defaults() -> None:
    assert pack_flow() == bytes(56)
    assert FLOW.unpack(pack_flow(importance=1))[:7] == (4, 0, 0, 0, 0, 1000, 500)
    assert FLOW.unpack(pack_flow(quench="never"))[:2] == (8, 0)


@pytest.mark.parametrize(
    ("field", "flow"),
    [
        ("size_bytes", {"size_bytes": 0}),
        ("size_bytes", {"size_bytes": -5}),
        ("size_bytes", {"size_bytes": 2**64}),
        ("deadline_s", {"deadline_s": 0}),
        ("deadline_s", {"deadline_s": -1.5}),
        ("deadline_s", {"deadline_s": 1e-10}),
        ("deadline_s", {"deadline_s": 1e12}),
        ("deadline_s", {"deadline_s": math.nan}),
        ("deadline_s", {"deadline_s": math.inf}),
        ("elapsed_s", {"elapsed_s": 1.0}),
        ("elapsed_s", {"deadline_s": 1.0, "elapsed_s": -1.0}),
        ("elapsed_s", {"deadline_s": 1.0, "elapsed_s": 1e12}),
        ("importance", {"importance": 0}),
        ("importance", {"importance": 8.1}),
        ("importance", {"importance": math.nan}),
        ("importance_share", {"importance_share": 0.5}),
        ("importance_share", {"importance": 1, "importance_share": 1.01}),
        ("quench", {"quench": "postpone"}),
        ("congestion_control", {"congestion_control": ""}),
        ("congestion_control", {"congestion_control": "sixteen_letters_"}),
        ("congestion_control", {"congestion_control": "a\0b"}),
    ],
)
def test_declare__a_wrong_value_names_its_field_and_never_reaches_the_kernel(
    field: str, flow: dict[str, Any]
) -> None:
    sock = FakeSocket()
    with pytest.raises(WrongField) as raised:
        declare(sock, **flow)
    assert raised.value.field == field
    assert isinstance(raised.value, FieldError)
    assert isinstance(raised.value, ValueError)
    assert not sock.values


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({}, r"declare: names no field: give at least one, .*; undeclare\(\) begins a flow"),
        ({"size_bytes": None, "deadline_s": None}, "declare: names no field"),
        ({"deadline_s": "5ms"}, "deadline_s: must be a number of seconds, not '5ms': write 0.005$"),
        ({"deadline_s": "0.5"}, "not '0.5': write 0.5$"),
        ({"deadline_s": "soon"}, "not 'soon'$"),
        ({"deadline_s": True}, "not True$"),
        ({"deadline_s": timedelta(milliseconds=5)}, "not a timedelta: write 0.005$"),
        ({"deadline_s": 1.0, "elapsed_s": "1ms"}, "elapsed_s: .*: write 0.001$"),
        ({"size_bytes": "10KB"}, "size_bytes: must be a whole number of bytes, not '10KB': write 10000$"),
        ({"size_bytes": 1e6}, r"size_bytes: must be a whole number of bytes, not 1000000.0: write 1000000$"),
        ({"size_bytes": 1.5}, "not 1.5$"),
        ({"size_bytes": b"data"}, "not b'data'$"),
        ({"size_bytes": math.inf}, "not inf$"),
        ({"importance": "2"}, "importance: must be a number, not '2': write 2$"),
        ({"importance": 1, "importance_share": []}, r"importance_share: must be a number, not \[\]$"),
        ({"congestion_control": 5}, "congestion_control: must be a name"),
        (
            {"size_bytes": 10**9, "deadline_s": 0.001},
            r"deadline_s: is hopeless: 1000000000 bytes in 0.001 s need 8,000 Gb/s, and no link has more than 800",
        ),
    ],
)
def test_declare__what_a_program_cannot_mean_is_answered_with_what_to_write(
    flow: dict[str, Any], message: str
) -> None:
    sock = FakeSocket()
    with pytest.raises(WrongField, match=message):
        declare(sock, **flow)
    assert not sock.values


def test_declare__the_fastest_link_can_meet_its_deadline() -> None:
    sock = FakeSocket()
    declare(sock, size_bytes=100_000_000, deadline_s=0.001)
    assert len(sock.values) == 1


def test_undeclare__begins_a_flow_of_which_nothing_is_known() -> None:
    sock = FakeSocket()
    undeclare(sock)
    assert sock.values == [bytes(56)]


def test_declare__an_unknown_field_is_a_bug() -> None:
    fields: dict[str, Any] = {"urgency": 1}
    with pytest.raises(TypeError, match="urgency"):
        declare(FakeSocket(), **fields)


def test_declare__refusals_keep_their_cause() -> None:
    refusals: tuple[tuple[int, dict[str, Any], type[Exception], str], ...] = (
        (errno.ENOPROTOOPT, {"size_bytes": 1}, NoAgent, "no Sluice agent runs on this machine"),
        (errno.EINVAL, {"congestion_control": "sluice_x"}, WrongField, "sluice_x is not registered"),
        (errno.EPERM, {"congestion_control": "cubic"}, WrongField, "cubic is only for root"),
        (errno.EOPNOTSUPP, {"size_bytes": 1}, OSError, "only a TCP socket"),
        (errno.ENOMEM, {"size_bytes": 1}, OSError, "memory"),
    )
    for number, flow, kind, text in refusals:
        with pytest.raises(kind, match=text) as raised:
            declare(FakeSocket(refuses=number), **flow)
        cause = raised.value.__cause__ or raised.value
        assert isinstance(cause, OSError)
        assert cause.errno == number


def test_state__no_agent_on_a_tcp_socket() -> None:
    for number in (errno.ENOPROTOOPT, errno.EOPNOTSUPP):
        for ask in (state, declared):
            with pytest.raises(NoAgent, match="sluice doctor"):
                ask(FakeSocket(refuses=number))
    with pytest.raises(OSError, match="only a TCP socket"):
        state(FakeSocket(refuses=errno.EOPNOTSUPP, protocol=socket.IPPROTO_UDP))


def test_state__fixed_point_becomes_numbers() -> None:
    values = (1, 3, 4000, 5000, 6000, 1 << 19, 3 << 15, 1 << 17, 1 << 14, 10, 2, 1, 4)
    now = state(FakeSocket(STATE.pack(*values)))
    assert (now.phase, now.windows, now.acked_bytes) == (Phase.SUSPENDED, 3, 4000)
    assert (now.rate_bytes_per_s, now.wanted_bytes_per_s) == (5000, 6000)
    assert (now.alpha, now.urgency, now.precedence, now.decrease) == (0.5, 1.5, 2.0, 0.25)
    assert (now.cwnd_packets, now.cuts, now.quenches, now.resumes) == (10, 2, 1, 4)
    endless = STATE.pack(2, 0, 0, 0, 2**64 - 1, *[0] * 8)
    assert state(FakeSocket(endless)).wanted_bytes_per_s == math.inf
    assert state(FakeSocket(endless)).phase == Phase.KILLED


def test_declared__an_undeclared_field_is_none() -> None:
    flow = declared(FakeSocket(FLOW.pack(16, 0, 0, 0, 0, 0, 0, b"cubic")))
    assert flow == DeclaredFlow(None, None, None, None, None, None, "cubic")
    flow = declared(FakeSocket(FLOW.pack(31, 1, 9, -500_000_000, 1_500_000_000, 1250, 100, b"sluice_ucp")))
    assert flow == DeclaredFlow(9, -0.5, 1.5, 1.25, 0.1, "kill", "sluice_ucp")


def test_errors__are_for_the_user() -> None:
    for kind in (WrongField, NoAgent, FlowQuenched):
        assert issubclass(kind, SluiceError)
