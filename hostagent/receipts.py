# SPDX-License-Identifier: Apache-2.0
"""Receipts for flow records that the web process has accepted, and its database's device may not have yet."""

from __future__ import annotations

from dataclasses import dataclass

from sluice.runtime.http_client import Answer, ServerAway


@dataclass(frozen=True)
class Receipt:
    """EPOCH.NUMBER: the device has it if it has one of the same epoch with a number that is not lower."""

    epoch: str
    number: int


def receipt_of(answer: Answer, key: str) -> Receipt | None:
    """Return the receipt under this key of an answer; None if it has none. Raises ServerAway for another form."""
    document = answer.json()
    text = document.get(key) if isinstance(document, dict) else None
    if text is None:
        return None
    epoch, point, number = str(text).partition(".")
    if not point or not number.isdecimal():
        raise ServerAway(f"its answer has the {key} {text!r}, not EPOCH.NUMBER")
    return Receipt(epoch, int(number))
