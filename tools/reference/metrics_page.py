# SPDX-License-Identifier: Apache-2.0
"""docs/reference/metrics.md: what /metrics of the web process has."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

from prometheus_client.metrics_core import Metric as Family

from sluice.store.engine import open_store
from sluice.store.totals import METRICS
from sluice.webui.metrics import StoreCollector
from tools.reference.markdown import code, page, sentence, table

_INTRODUCTION = """\
The web process answers Prometheus at `/metrics`. It reads the store at every request, so all web workers give the same
answer. The controller and the agents need no port of their own. [How to watch a network](../how-to/watch.md) sets up
Prometheus and Grafana."""

_TOTALS = """\
A total only grows. It survives every restart, a standby controller that takes over, and the removal of old rows. A
counter's name has the ending `_total`; a histogram has `_bucket`, `_sum` and `_count`."""


def text() -> str:
    """The page."""
    totals = [metric.name for metric in METRICS]
    return page(
        "Metrics",
        "For operators who build dashboards and alerts.",
        _INTRODUCTION,
        "## Totals",
        _TOTALS,
        table(
            ("metric", "kind", "labels", "meaning"),
            [
                (
                    code(metric.name + ("" if metric.buckets else "_total")),
                    "histogram" if metric.buckets else "counter",
                    ", ".join(map(code, metric.labels)),
                    sentence(metric.help),
                )
                for metric in METRICS
            ],
        ),
        "## State",
        table(
            ("metric", "kind", "labels", "meaning"),
            [
                (
                    _name(family),
                    family.type,
                    ", ".join(map(code, _labels(family))),
                    sentence(family.documentation),
                )
                for family in families()
                if family.name not in totals
            ],
        ),
    )


def families() -> Iterator[Family]:
    """What a web process with an empty store answers."""
    with tempfile.TemporaryDirectory(prefix="sluice-reference-") as folder:
        engine = open_store(f"sqlite:///{folder}/store.db")
        yield from StoreCollector(engine).collect()
        engine.dispose()


def _name(family: Family) -> str:
    return code(family.name + ("_total" if family.type == "counter" else ""))


def _labels(family: Family) -> tuple[str, ...]:
    """A family without labels has none of this attribute's names."""
    return tuple(getattr(family, "_labelnames", ()))
