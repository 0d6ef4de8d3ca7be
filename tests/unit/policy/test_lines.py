# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.policy.errors import LONGEST_LINE, line_of, visible
from sluice.policy.wire.agents import HostHeartbeat, heartbeat_from
from sluice.policy.wire.records import FlowRecord
from tests.kit.heartbeats import document, host_heartbeat
from tests.unit.webui.records import record


@pytest.mark.parametrize(
    "control", ["\n", "\r\n", "\x1b", "\x07", "\x7f", "\x9b", "\u2028", "\u202e", "\u2066"]
)
def test_visible__no_character_ends_a_line_or_controls_a_terminal(control: str) -> None:
    assert visible(f"a{control}b") == "a b"


def test_visible__words_of_any_language_stay() -> None:
    assert visible("Größe, 流, → 5 µs") == "Größe, 流, → 5 µs"


def test_line_of__has_a_greatest_length() -> None:
    assert line_of("x" * LONGEST_LINE) == "x" * LONGEST_LINE
    assert len(line_of("x" * 10**6)) == LONGEST_LINE


def test_what_an_agent_says_is_one_line() -> None:
    said = {"fallback_reason": "\x1b]0;title\x07no\nBPF", "version": "1\n2"}
    beat = heartbeat_from({**document(host_heartbeat()), **said})
    assert isinstance(beat, HostHeartbeat)
    assert (beat.fallback_reason, beat.version) == (" ]0;title no BPF", "1 2")
    unfinished = record("f", status="unfinished", fct_us=None, reason="\x1b[2Jreset")
    assert FlowRecord.from_document(unfinished).reason == " [2Jreset"
