# SPDX-License-Identifier: Apache-2.0
"""Measures the dashboard in Chromium on a network of 200 ports and 100 hosts: weight, first chart, and smoothness.

`make bench-page` prints the figures. The rows are synthetic (`tests/web/synthetic.py`), so no root is needed. CPU times
are those of the page's main thread; frames and long tasks are by the clock, so they need an idle machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import requests

from tests.web.conftest import CHROMIUM, CHROMIUM_ARGUMENTS, Server, live_network
from tests.web.dashboard import open_dashboard, until

if TYPE_CHECKING:
    from playwright.sync_api import CDPSession, Page

# 10 × 10 ports to hosts and 10 × 5 links between switches with a port at each end: 200.
NETWORK = ("--leaves", "10", "--spines", "5", "--hosts-per-leaf", "10")
SNAPSHOTS = 3
FRAME_MS = 1000 / 60
DOMAINS = ("Script", "Layout", "RecalcStyle", "Task")

# Notes when the first chart has lines, and all long tasks and frames since `measure()`.
OBSERVE = """
window.speed = {chart: null, frames: [], tasks: []};
new PerformanceObserver((list) => {
    for (const {duration} of list.getEntries()) window.speed.tasks.push(duration);
}).observe({type: 'longtask', buffered: true});
const look = (at) => {
    const chart = document.getElementById('fct-chart');
    if (!(chart && chart.querySelector('canvas') && Number(chart.dataset.points))) return requestAnimationFrame(look);
    window.speed.chart = at;
};
requestAnimationFrame(look);
"""
MEASURE = """async (seconds) => {
    const {speed} = window;
    speed.tasks = [];
    const begun = performance.now();
    let last = begun;
    await new Promise((done) => requestAnimationFrame(function frame(at) {
        speed.frames.push(at - last);
        last = at;
        if (at - begun < 1000 * seconds) requestAnimationFrame(frame); else done();
    }));
    return {frames: speed.frames.slice(1), tasks: speed.tasks, chart: speed.chart};
}"""


def page_speed(seconds: float) -> dict[str, Any]:
    """Return the figures of a page that watches the network for that many seconds."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory(prefix="sluice-page-") as folder, sync_playwright() as playwright:
        server = Server(Path(folder))
        server.start()
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_ARGUMENTS)
        try:
            with live_network(server, *NETWORK):
                page = browser.new_page(viewport={"width": 1440, "height": 900})
                return _weight(server, page) | _motion(page, seconds)
        finally:
            browser.close()
            server.stop()


def _weight(server: Server, page: Page) -> dict[str, Any]:
    """Open the page. Return how many bytes come before its first chart, and in each snapshot."""
    received: dict[str, int] = {}
    session = page.context.new_cdp_session(page)
    session.on("Network.dataReceived", lambda event: _count(received, event))
    streams: set[str] = set()
    session.on("Network.requestWillBeSent", lambda event: _note_stream(streams, event))
    session.send("Network.enable")
    page.add_init_script(OBSERVE)
    open_dashboard(page, server)
    until(page, "window.speed.chart !== null")
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


def _count(received: dict[str, int], event: Any) -> None:
    size = event["encodedDataLength"] or event["dataLength"]
    received[event["requestId"]] = received.get(event["requestId"], 0) + size


def _note_stream(streams: set[str], event: Any) -> None:
    if event["request"]["url"].endswith("/api/v1/events"):
        streams.add(event["requestId"])


def _motion(page: Page, seconds: float) -> dict[str, Any]:
    """Return the figures of the frames, and the CPU time of the main thread, while snapshots arrive."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    before = _cpu(session)
    found = page.evaluate(MEASURE, seconds)
    after = _cpu(session)
    frames = np.array(found["frames"])
    return {
        "first_chart_ms": found["chart"],
        "frame_ms_median": float(np.median(frames)),
        "frame_ms_p99": float(np.percentile(frames, 99)),
        "frame_ms_max": float(frames.max()),
        "frames_dropped_share": float(1 - len(frames) * FRAME_MS / frames.sum()),
        "long_tasks_per_s": len(found["tasks"]) / seconds,
        "long_task_ms_max": max(found["tasks"], default=0.0),
        **{f"cpu_{name.lower()}_ms_per_s": (after[name] - before[name]) * 1000 / seconds for name in DOMAINS},
    }


def _cpu(session: CDPSession) -> dict[str, float]:
    """Return the CPU time of the main thread in each domain, in seconds."""
    values = {row["name"]: row["value"] for row in session.send("Performance.getMetrics")["metrics"]}
    return {name: float(values[f"{name}Duration"]) for name in DOMAINS}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench-page", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="how long to watch (default: %(default)s)"
    )
    print(json.dumps(page_speed(parser.parse_args(argv).seconds), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
