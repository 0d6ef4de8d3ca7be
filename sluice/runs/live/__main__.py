# SPDX-License-Identifier: Apache-2.0
"""The process of a simulated network: `python -m sluice.runs.live`. It needs a store with the policy to carry out.

SIGUSR1 ends the traffic: no flow starts, active ones continue. With --hold SECONDS, the traffic begins at SIGUSR2, and
no flow starts after that time. SIGTERM, SIGINT, SIGHUP and SIGQUIT end the process. It
records active flows as unfinished.
"""

import argparse
import json
import logging
import signal
import sys
import time
from pathlib import Path

from sluice.controller.leadership import NAME
from sluice.controller.recorder import Recorder
from sluice.runs.files import scenario_with
from sluice.runtime import plugins
from sluice.runtime.lifecycle import Notifier, on_end
from sluice.store import lease
from sluice.store.engine import open_store

IDLE_S = 0.01
"""Between two steps of a network that is on time."""
LAST_ROWS_S = 3.0
"""How long the store may take for the last rows."""


def main(argv: list[str] | None = None) -> int:
    """Run until SIGTERM. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="sluice.runs.live", description=__doc__)
    parser.add_argument("--store", required=True, metavar="URL")
    parser.add_argument("--scenario", required=True, type=Path, metavar="FILE", help="the document as JSON")
    parser.add_argument("--run-id", default=None, metavar="ID", help="the first part of each flow's id")
    parser.add_argument(
        "--hold", type=float, metavar="SECONDS", help="length of a traffic that begins at SIGUSR2"
    )
    arguments = parser.parse_args(argv)
    logging.basicConfig(
        level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", stream=sys.stdout
    )
    received: set[int] = set()
    plugins.load()
    on_end(lambda: received.add(signal.SIGTERM))
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda number, frame: received.add(number))
    run(arguments, received)
    return 0


def run(arguments: argparse.Namespace, received: set[int]) -> None:
    """Run the network until `received`, to which signal handlers add, has SIGTERM."""
    from sluice.simulator import build

    build.build()
    from sluice.runs.live.network import Instant, LiveNetwork

    def now() -> Instant:
        return Instant(time.monotonic(), time.time())

    store_url, hold_s = arguments.store, arguments.hold
    scenario, _, topology = scenario_with(json.loads(arguments.scenario.read_text()))
    run_id = arguments.run_id or f"{scenario.name}-{int(time.time())}"
    recorder = Recorder(store_url, lambda desired: network.want(desired))
    network = LiveNetwork(scenario, topology, run_id, recorder, now(), holds=hold_s is not None)
    # This process stands in for a controller, and so takes the controllers' lease.
    store, held = open_store(store_url), None
    try:
        while held is None:
            held = lease.take(store, NAME, "simulator", lease.look(store, NAME))
    finally:
        store.dispose()
    recorder.lead(held.generation)
    recorder.start()
    notifier = Notifier()
    notifier.ready("simulates the network")
    while signal.SIGTERM not in received:
        notifier.alive()
        if signal.SIGUSR1 in received:
            network.end_traffic()
        if hold_s is not None and signal.SIGUSR2 in received:
            received.discard(signal.SIGUSR2)
            network.begin_traffic(hold_s)
        if network.step(now()):
            time.sleep(IDLE_S)
    notifier.stopping()
    network.finish(now())
    recorder.stop(LAST_ROWS_S)


if __name__ == "__main__":
    sys.exit(main())
