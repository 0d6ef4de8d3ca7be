# SPDX-License-Identifier: Apache-2.0
"""python -m webui: serve the API and the dashboard."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from policy.errors import SluiceError
from store.engine import open_store
from webui.auth import find_token
from webui.server import Server


def main(argv: list[str] | None = None) -> int:
    arguments = _parser().parse_args(argv)
    if not arguments.listen:
        arguments.listen = [] if arguments.unix else ["127.0.0.1:8080"]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        open_store(arguments.store).dispose()
        token, source = find_token(arguments.token_file)
    except SluiceError as error:
        print(f"sluice web: {error}", file=sys.stderr)
        return 2
    for address in arguments.listen:
        print(f"dashboard on http://{address}", flush=True)
    print(f"changing the policy takes the token in {source}", flush=True)
    Server(arguments.store, token, arguments.listen, arguments.unix, arguments.threads).run()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m webui", description=__doc__)
    parser.add_argument(
        "--store", required=True, help="store URL, sqlite:////path/to/store.db or postgresql+psycopg://…"
    )
    parser.add_argument(
        "--listen",
        action="append",
        metavar="HOST:PORT",
        help="address to serve on, repeatable; 127.0.0.1:8080 when there is no --unix either",
    )
    parser.add_argument("--unix", type=Path, metavar="PATH", help="serve on this unix socket")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="file with the token for changing the policy"
    )
    parser.add_argument(
        "--threads", type=int, default=64, help="requests served at once; a dashboard takes one"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
