# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sluice.policy.wire.records import FlowRecord
from sluice.webui.access import foreign_record
from tests.unit.webui.records import record

RECEIVED = {"source": "watched", "retransmissions": None, "ideal_us": None}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"src": "me", "dst": "h2"}, ""),
        ({"src": "me", "dst": "me"}, ""),
        ({"src": "me", "source": "background"}, ""),
        ({"src": "h1", "dst": "h2"}, "no end of the flow h1 > h2"),
        ({"dst": "me"}, "its sender records it"),
        ({"dst": "me", "source": "background"}, "its sender records it"),
        ({"dst": "me", "source": "watched"}, "its sender records it"),
        ({"dst": "me", **RECEIVED}, ""),
        ({"dst": "me", **RECEIVED, "deadline_us": 1.0, "met": False}, "cannot have deadline_us"),
        ({"dst": "me", **RECEIVED, "timeouts": 0}, "cannot have timeouts"),
        ({"dst": "me", **RECEIVED, "ack_wait_us": 1.0}, "cannot have ack_wait_us"),
    ],
)
def test_foreign_record(changes: dict[str, Any], wrong: str) -> None:
    problem = foreign_record("me", FlowRecord.from_document(record("f", **changes)))
    assert wrong in problem
    assert bool(problem) == bool(wrong)
