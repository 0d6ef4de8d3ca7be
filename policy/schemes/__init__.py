# SPDX-License-Identifier: Apache-2.0
"""The schemes: `table.py` has them, and what one is made of."""

from sluice.policy.schemes.queues import QueueRule
from sluice.policy.schemes.table import SCHEMES, SLUICE, Marking, Scheme, ThresholdRule, scheme_named

__all__ = ["SCHEMES", "SLUICE", "Marking", "QueueRule", "Scheme", "ThresholdRule", "scheme_named"]
