# SPDX-License-Identifier: Apache-2.0
"""The trace of a run: what happens to the packets and windows that the scenario has chosen."""

from collections.abc import Iterable

import numpy as np

from sluice.policy.units import PS_PER_S
from sluice.simulator.taps import Columns

EVENTS = np.asarray(
    ["queued", "sent", "received", "marked", "dropped", "window", "mark-cut", "loss-cut", "timeout"]
)
KINDS = np.asarray(
    ["data", "ack", "syn", "syn-ack", "rate-request", "rate-grant", "message", "query", "answer"]
)
ROW = np.dtype(
    [(name, np.uint64) for name in ("at_ps", "flow", "waiting_bytes")]
    + [(name, np.uint32) for name in ("port", "number", "next_expected", "cwnd")]
    + [(name, np.uint16) for name in ("frame_bytes",)]
    + [(name, np.uint8) for name in ("event", "packet", "tag", "queue")]
    + [(name, np.bool_) for name in ("ect", "ce")]
)
"""struct TraceRow of core/world/trace.hpp."""


class Trace:
    """Puts the rows of a fabric into the order of time. The fabric knows before when a packet will be received."""

    def __init__(self, ports: Iterable[str]) -> None:
        """`ports`: their names, by number."""
        self._ports, self._later = np.asarray([*ports, ""]), np.empty(0, ROW)

    def take(self, rows: bytes, now_ps: int) -> Columns:
        """Return the columns of all rows up to now, as `Taps.trace` describes them."""
        known = np.concatenate([self._later, np.frombuffer(rows, ROW)])
        known = known[np.argsort(known["at_ps"], kind="stable")]
        due = int(np.searchsorted(known["at_ps"], now_ps, "right"))
        now, self._later = known[:due], known[due:]
        port = np.take(self._ports, now["port"], mode="clip")
        named = {
            "at_s": now["at_ps"] / PS_PER_S,
            "event": EVENTS[now["event"]],
            "flow": now["flow"],
            "port": port,
            "packet": np.where(port == "", "", KINDS[now["packet"]]),
        }
        return named | {name: now[name] for name in ROW.fields or {} if name not in (*named, "at_ps")}
