# SPDX-License-Identifier: Apache-2.0
"""`python -m sluice.run_manager`: the run manager's process. SIGTERM ends it and its runs, in order."""

import argparse
import logging
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluice.policy.errors import SluiceError
from sluice.run_manager.manager import Listing, RunManager, refused
from sluice.runtime import logs, plugins
from sluice.runtime.lifecycle import on_end
from sluice.runtime.local_calls import Listener

log = logging.getLogger("sluice.run_manager")


def main() -> int:
    """Serve until a signal. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="sluice.run_manager", description=__doc__)
    parser.add_argument("--folder", required=True, type=Path, metavar="DIR")
    parser.add_argument("--socket", required=True, type=Path, metavar="FILE")
    parser.add_argument("--simulations", required=True, type=int, metavar="N")
    given = parser.parse_args()
    logs.start()
    ended = threading.Event()
    on_end(ended.set)
    plugins.load()
    given.folder.mkdir(parents=True, exist_ok=True)
    manager = RunManager(given.folder.resolve(), given.simulations)
    given.socket.unlink(missing_ok=True)
    listener = Listener(given.socket, answerer(manager))
    listener.start()
    manager.serve(ended)
    listener.stop()
    return 0


def answerer(manager: RunManager) -> Any:
    """Return the function that answers the web process's calls."""
    listing = Listing(manager)

    def do(request: Mapping[str, Any]) -> Mapping[str, Any]:
        match request["do"]:
            case "list":
                return listing.document()
            case "check":
                return manager.check(request["run"])
            case "start":
                return manager.start(request["run"], request["who"])
            case "cancel":
                return manager.cancel(request["name"])
            case "report":
                return {"html": listing.report(request["names"], request["baseline"])}
            case other:
                raise SluiceError(f"no such call: {other}")

    def answer(request: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            return do(request)
        except SluiceError as error:
            return refused(error)
        except Exception:
            log.exception("a call failed: %s", request.get("do"))
            return {"error": {"status": 500, "code": "internal", "problem": "see the log", "field": None}}

    return answer


if __name__ == "__main__":
    sys.exit(main())
