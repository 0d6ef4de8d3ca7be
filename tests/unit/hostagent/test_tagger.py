# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from sluice.dataplane.tagger import TagCounters, Tagger, TagSettings
from sluice.hostagent.tagger import HostTagger
from sluice.policy import tags


class CountingTagger:
    """A tagger that has sent 100 packets of 1 KB under every DSCP."""

    def counters(self, dscps: Iterable[int]) -> tuple[TagCounters, ...]:
        return tuple(TagCounters(100, 100_000) for _ in dscps)


def test_urgent_bytes__of_all_urgency_tags_that_are_not_reserved() -> None:
    host = HostTagger("lo", use_bpf=False)
    assert host.urgent_bytes() == 0, "no packet has a tag"
    host._tagger = cast(Tagger, CountingTagger())
    assert host.urgent_bytes() == tags.URGENCY_STEPS * 100_000
    host._set = TagSettings(reserved_dscp=(10, 46, 48))
    assert host.urgent_bytes() == (tags.URGENCY_STEPS - 2) * 100_000
