# SPDX-License-Identifier: Apache-2.0
"""The schemes: `table.py` has them, `scheme.py` what one is made of."""

from __future__ import annotations

from sluice.policy.schemes.scheme import Marking, QueueRule, Scheme, ThresholdRule
from sluice.policy.schemes.table import SCHEMES, SLUICE, scheme_named

__all__ = ["SCHEMES", "SLUICE", "Marking", "QueueRule", "Scheme", "ThresholdRule", "scheme_named"]
