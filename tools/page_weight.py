# SPDX-License-Identifier: Apache-2.0
"""Measures the dashboard in Chromium on networks of 200 and 1,000 ports: how much it loads, and its memory.

`make bench-page` prints the figures. The rows are synthetic (`tests/web/synthetic.py`), so no root is needed. Memory is
the heap after a garbage collection: of the page, and of a second model that gets two hours of snapshots within
seconds, then those of days with one each CHANGE_S, then those of a night. In them a port changes its thresholds each
CHANGE_S.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import requests

from tests.web.conftest import CHROMIUM, CHROMIUM_ARGUMENTS, Server, live_network
from tests.web.dashboard import open_dashboard, until
from tests.web.synthetic import leaf_spine

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

# By the number of ports: leaves, spines, and hosts for each leaf. A link between switches has a port at each end.
NETWORKS = {200: (10, 5, 10), 1000: (20, 10, 30)}
DAY_S = 86_400
HELD_S = DAY_S / 2
CHANGE_S = 10
SNAPSHOTS = 3

# Feeds a model with snapshots like the page's own, one for each `stepS` of that time.
FEED = """async ([seconds, stepS, isHeld, changeS]) => {
    const {Model} = await import('/static/js/pure/model.js');
    const {topology, port, snapshot} = sluice.model;
    window.fed ??= Object.assign(new Model(), {topology, port, windowS: 3600, snapshot: structuredClone(snapshot)});
    const {ports, thresholds} = fed.snapshot;
    const names = Object.keys(ports);
    fed.held = isHeld ? {from: fed.now - 300, to: fed.now} : null;
    for (let second = 0; second < seconds; second += stepS) {
        const at = fed.now + stepS;
        for (const [i, name] of names.entries()) {
            ports[name] = {...ports[name], at, queue_rates_bps: [at, i, second, 0.5, 0, 0, 0, 0]};
            if ((i + second) % changeS < stepS)
                thresholds[name] = {...thresholds[name], at, thresholds_bytes: [second, at, 4 * at]};
        }
        fed.take({...fed.snapshot, at});
    }
}"""


def page_figures(ports: int, days: float) -> dict[str, Any]:
    """Return the figures of a page that watches a network of that many ports."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="sluice-page-") as folder, sync_playwright() as playwright:
        server = Server(Path(folder))
        server.start()
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_ARGUMENTS)
        try:
            with live_network(server, leaf_spine(*NETWORKS[ports])):
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                return _weight(server, page) | _memory(page, days)
        finally:
            browser.close()
            server.stop()


def _weight(server: Server, page: Page) -> dict[str, Any]:
    """Open the page. Return how many bytes come before its first chart, and in each snapshot."""
    received: dict[str, int] = defaultdict(int)
    streams: set[str] = set()

    def count(event: Any) -> None:
        received[event["requestId"]] += event["encodedDataLength"] or event["dataLength"]

    def note_stream(event: Any) -> None:
        if event["request"]["url"].endswith("/api/v1/events"):
            streams.add(event["requestId"])

    session = page.context.new_cdp_session(page)
    session.on("Network.dataReceived", count)
    session.on("Network.requestWillBeSent", note_stream)
    session.send("Network.enable")
    open_dashboard(page, server)
    until(page, "Number(document.getElementById('fct-chart')?.dataset.points) > 0")
    files = {request: size for request, size in received.items() if request not in streams}
    events = requests.get(f"{server.url}/api/v1/events", params={"count": SNAPSHOTS}, timeout=60).content
    frames = [frame for frame in events.split(b"\n\n") if b"event: snapshot" in frame]
    session.detach()
    return {
        "ports": page.evaluate("Object.keys(sluice.model.snapshot.ports).length"),
        "hosts": page.evaluate("sluice.model.topology.hosts.length"),
        "files": len(files),
        "page_kb": sum(files.values()) / 1000,
        "snapshot_kb": float(np.mean([len(frame) for frame in frames])) / 1000,
    }


def _memory(page: Page, days: float) -> dict[str, float]:
    """Return the heap of the page, and what a model adds to it in that many days, and in a night with a held range."""
    session = page.context.new_cdp_session(page)
    heaps_mb = {"page_heap_mb": _heap_mb(session)}
    for name, feed_s, step_s, is_held in (
        ("after_2_h", 7200, 1, False),
        (f"after_{days:g}_days", days * DAY_S, CHANGE_S, False),
        ("held_overnight", HELD_S, CHANGE_S, True),
    ):
        page.evaluate(FEED, [feed_s, step_s, is_held, CHANGE_S])
        heaps_mb[f"model_mb_{name}"] = _heap_mb(session) - heaps_mb["page_heap_mb"]
    return heaps_mb


def _heap_mb(session: CDPSession) -> float:
    session.send("HeapProfiler.collectGarbage")
    return float(session.send("Runtime.getHeapUsage")["usedSize"]) / 1e6


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench-page", description=__doc__)
    parser.add_argument(
        "--days", type=float, default=7.0, help="days of snapshots for the memory (default: %(default)s)"
    )
    parser.add_argument(
        "--ports", type=int, nargs="*", choices=NETWORKS, default=[*NETWORKS], help="sizes of the network"
    )
    arguments = parser.parse_args(argv)
    for ports in arguments.ports:
        print(json.dumps(page_figures(ports, arguments.days), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
