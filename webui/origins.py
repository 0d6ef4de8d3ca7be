# SPDX-License-Identifier: Apache-2.0
"""Which records a host can have made. Pure.

A sender's agent records what the host sent. Only of a watched flow from a host without an agent, the receiver's agent
makes the record. It lacks what only a sender can know (docs/explanation/flow-watch.md).
"""

from __future__ import annotations

from sluice.policy.wire.records import UNKNOWN_TO_A_RECEIVER, FlowRecord


def foreign_record(host: str, record: FlowRecord) -> str:
    """Return why the host's agent cannot have made this record; empty if it can."""
    if record.src == host:
        return ""
    if record.dst != host:
        return no_end(host, record.src, record.dst)
    if not record.is_a_receivers:
        return f"{host} is only the receiver of the flow {record.src} > {record.dst}: its sender records it"
    known = [name for name in UNKNOWN_TO_A_RECEIVER if getattr(record, name) is not None]
    return f"{host} is only the receiver of the flow, so its record cannot have {known[0]}" if known else ""


def no_end(host: str, src: str, dst: str) -> str:
    """Return the reason why a flow does not concern a host."""
    return f"the certificate is of {host}, which is no end of the flow {src} > {dst}"
