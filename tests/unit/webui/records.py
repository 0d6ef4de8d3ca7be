# SPDX-License-Identifier: Apache-2.0
"""A valid flow record, and its document. Tests change its fields."""

import time
from typing import Any

from sluice.policy.wire.records import FlowRecord


def record(identity: str, **changes: Any) -> dict[str, Any]:
    document = {
        "id": identity,
        "src": "h1",
        "dst": "h2",
        "bytes": 10_000,
        "size_class": "small",
        "started_at": time.time() - 0.002,
        "fct_us": 2_000.0,
        "ideal_us": 900.0,
        "deadline_us": None,
        "met": None,
        "retransmissions": 0,
        "congestion_control": "sluice_dctcp",
        "scheme": "pias",
        "status": "finished",
        "reason": "",
    }
    return {**document, **changes}


def flow(identity: str, **changes: Any) -> FlowRecord:
    return FlowRecord.from_document(record(identity, **changes))
