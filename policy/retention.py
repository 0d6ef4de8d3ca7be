# SPDX-License-Identifier: Apache-2.0
"""How long a store keeps its rows."""

from dataclasses import dataclass

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


@dataclass(frozen=True)
class Retention:
    """How long rows are kept. None means for ever.

    On SQLite the defaults limit the demonstration's store to 350 MB. A million flow records are
    220 MB, and an hour of samples of its 24 ports is 28 MB.
    """

    flows_s: float | None = DAY_S
    samples_s: float | None = HOUR_S
    """For port samples, and for thresholds that others have replaced."""
    events_s: float | None = 7 * DAY_S
    most_flows: int | None = 1_000_000
    """The most flow records to keep, by sequence number, of any age. PostgreSQL keeps up to a partition more."""
    agents_s: float | None = 600.0
    """For silent agents that neither the network nor a certificate names."""


FOR_EVER = Retention(None, None, None, None, None)
