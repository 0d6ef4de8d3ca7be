# SPDX-License-Identifier: Apache-2.0
"""The port agent's captures. A shell plays tcpdump; tests/net has the real one."""

from __future__ import annotations

import base64
import struct
import threading
import time

import pytest

from sluice.policy.captures import CaptureOrder, CaptureResult
from sluice.policy.network.graph import Port
from sluice.runtime.wait import wait_until
from sluice.topologies import port_capture
from sluice.topologies.port_capture import Captures, captured, captured_by, whole_packets

HEADER = struct.pack("=IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 128, 1)
PACKET = struct.pack("=IIII", 1, 0, 10, 60) + bytes(10)
PORT = Port("s1", 2, "h2", 0, 10**7, edge=True)


def order(seconds: float = 0.2, size: int = 100_000, capture: str = "a" * 16) -> CaptureOrder:
    return CaptureOrder(capture, "s1:2", seconds, size)


def shell(script: str) -> list[str]:
    octal = "".join(f"\\\\{byte:03o}" for byte in HEADER)
    packet = "".join(f"\\\\{byte:03o}" for byte in PACKET)
    return ["sh", "-c", script.replace("HEADER", f"printf {octal}").replace("PACKET", f"printf {packet}")]


def test_captured_by__ends_after_its_time_and_keeps_what_comes_last() -> None:
    at_the_end = "trap 'PACKET; echo 7 packets dropped by kernel >&2; exit 0' INT"
    last = f"{at_the_end}; HEADER; PACKET; while :; do sleep 0.02; done"
    began = time.monotonic()
    result = captured_by(shell(last), order())
    assert time.monotonic() - began >= 0.2
    assert (result.problem, result.packets, result.lost, result.full) == ("", 2, 7, False)
    assert base64.b64decode(result.pcap) == HEADER + 2 * PACKET


def test_captured_by__ends_at_its_size_with_a_whole_packet() -> None:
    result = captured_by(shell("HEADER; while :; do PACKET; done"), order(60.0, 1000))
    assert (result.full, result.packets) == (True, (1000 - 24) // 26)
    assert len(base64.b64decode(result.pcap)) == 24 + 26 * result.packets


def test_captured_by__says_why_tcpdump_does_not_start() -> None:
    result = captured_by(["sh", "-c", "echo 'tcpdump: eth9: No such device' >&2; exit 1"], order())
    assert result == CaptureResult("tcpdump failed: tcpdump: eth9: No such device")


def test_captured_by__a_tcpdump_that_fails_after_its_header_is_a_problem_and_no_empty_file() -> None:
    failing = "HEADER; echo 'tcpdump: no right to' >&2; echo '(change its user)' >&2; exit 1"
    result = captured_by(shell(failing), order(60.0))
    assert result == CaptureResult("tcpdump failed: tcpdump: no right to (change its user)")


def test_captured_by__gives_up_if_tcpdump_never_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_capture, "START_S", 0.1)
    monkeypatch.setattr(port_capture, "END_S", 0.1)
    assert "says nothing" in captured_by(["sh", "-c", "trap '' INT; sleep 5"], order()).problem


def test_captured__names_the_package_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "apt-get install tcpdump" in captured("lo", order()).problem


def test_whole_packets__leaves_an_incomplete_last_one_out() -> None:
    assert whole_packets(HEADER + PACKET + PACKET[:-1]) == (HEADER + PACKET, 1)
    assert whole_packets(HEADER + PACKET[:15]) == (HEADER, 0)
    assert whole_packets(HEADER) == (HEADER, 0)


def test_captures__one_order_is_made_once_although_each_answer_repeats_it() -> None:
    delivered: list[tuple[str, CaptureResult]] = []
    made: list[str] = []
    goes_on = threading.Event()

    def make(interface: str, wanted: CaptureOrder) -> CaptureResult:
        made.append(interface)
        goes_on.wait(60)
        return CaptureResult(packets=1)

    captures = Captures(lambda capture, result: delivered.append((capture, result)), make)
    for _ in range(3):
        captures.follow(order(), PORT)
    goes_on.set()
    wait_until(lambda: delivered, "the capture is delivered")
    captures.follow(order(), PORT)
    assert made == ["s1-eth2"]
    assert delivered == [("a" * 16, CaptureResult(packets=1))]


def test_captures__a_port_that_is_gone_is_a_problem() -> None:
    delivered: list[CaptureResult] = []
    Captures(lambda _capture, result: delivered.append(result)).follow(order(), None)
    wait_until(lambda: delivered, "the problem is delivered")
    assert "does not have the port s1:2" in delivered[0].problem
