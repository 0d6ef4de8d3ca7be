# SPDX-License-Identifier: Apache-2.0
"""The kinds of values in documents: each kind reads a value and states what it allows, in words and as JSON schema.

Policies, scenarios, flow records and agent documents are tables of entries (`policy/entries.py`).
Each entry has a kind.
"""

from __future__ import annotations

from policy.kinds.containers import ListOf, MapOf, OneOrMore
from policy.kinds.kind import Kind, Schema
from policy.kinds.quantities import Duration, Quantity, Rate, Size
from policy.kinds.scalars import Choice, Flag, Line, Number, OneOfWhole, Text, Whole

__all__ = [
    "Choice",
    "Duration",
    "Flag",
    "Kind",
    "Line",
    "ListOf",
    "MapOf",
    "Number",
    "OneOfWhole",
    "OneOrMore",
    "Quantity",
    "Rate",
    "Schema",
    "Size",
    "Text",
    "Whole",
]
