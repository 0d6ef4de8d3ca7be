# SPDX-License-Identifier: Apache-2.0
"""The axes of a sweep: what one value of each can be, in a scenario's [sweep] table and in a request."""

from __future__ import annotations

from sluice.policy.kinds import Number, Text, Whole

SCHEME = Text(longest=64)
"""A scheme, or a variant of [sweep.scheme]."""
LOAD = Number(0.001, 0.99)
SEED = Whole(0, 2**63)
