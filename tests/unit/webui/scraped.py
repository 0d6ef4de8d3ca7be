# SPDX-License-Identifier: Apache-2.0
"""The metrics as Prometheus reads them."""

from prometheus_client.parser import text_string_to_metric_families

from tests.unit.webui.conftest import Client


def scrape(client: Client) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Return sample name → labels as a sorted tuple → value."""
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.mimetype == "text/plain"
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {}), f"{sample.name}{labels} is there twice"
            found[sample.name][labels] = sample.value
    return found
