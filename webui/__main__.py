# SPDX-License-Identifier: Apache-2.0
"""python -m webui: serve the API and the dashboard."""

from __future__ import annotations

import argparse
import logging
import sys
from pathlib import Path

from sqlalchemy.exc import OperationalError

from policy.errors import SluiceError
from store.engine import open_store
from webui.auth import find_token
from webui.event_log import EventLog
from webui.options import add_agents, add_retention, prepare_agents, retention
from webui.server import Server, ServerSettings


def main(argv: list[str] | None = None) -> int:
    arguments = parser().parse_args(argv)
    if not arguments.listen:
        arguments.listen = [] if arguments.unix else ["127.0.0.1:8080"]
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    try:
        engine = open_store(arguments.store)
        if arguments.event_log:
            _check_event_log(EventLog(engine, arguments.event_log))
        engine.dispose()
        token, source = find_token(arguments.token_file)
        prepare_agents(arguments)
    except SluiceError as error:
        print(f"sluice web: {error}", file=sys.stderr)
        return 2
    except OperationalError as error:
        print(f"sluice web: cannot open the store: {error.orig}", file=sys.stderr)
        return 2
    for address in arguments.listen:
        print(f"dashboard on http://{address}", flush=True)
    if arguments.agents:
        print(f"agents on https://{arguments.agents}, authority in {arguments.authority}", flush=True)
    print(f"a policy change needs the token in {source}", flush=True)
    Server(_settings(arguments, token)).run()
    return 0


def _check_event_log(event_log: EventLog) -> None:
    """Report a problem with the event log before the workers start; each worker opens it again."""
    event_log.write_new()
    event_log.close()


def _settings(arguments: argparse.Namespace, token: str) -> ServerSettings:
    return ServerSettings(
        store_url=arguments.store,
        token=token,
        listen=arguments.listen,
        unix=arguments.unix,
        threads=arguments.threads,
        workers=arguments.workers,
        retention=retention(arguments),
        event_log=arguments.event_log,
        agents=arguments.agents,
        authority=arguments.authority,
        certificate_life_s=arguments.certificate_life,
    )


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m webui", description=__doc__)
    parser.add_argument(
        "--store", required=True, help="store URL, sqlite:////path/to/store.db or postgresql+psycopg://…"
    )
    parser.add_argument(
        "--listen",
        action="append",
        metavar="HOST:PORT",
        help="address to serve on; repeatable; default 127.0.0.1:8080 unless --unix is given",
    )
    parser.add_argument("--unix", type=Path, metavar="PATH", help="serve on this unix socket")
    parser.add_argument(
        "--token-file", type=Path, metavar="FILE", help="file with the token for changing the policy"
    )
    parser.add_argument(
        "--threads",
        type=int,
        default=64,
        help="requests that one worker serves at the same time; each dashboard needs one (default %(default)s)",
    )
    parser.add_argument("--workers", type=int, default=1, help="worker processes (default %(default)s)")
    parser.add_argument(
        "--event-log",
        metavar="FILE",
        help="write each event as a line of JSON into FILE; - means standard error",
    )
    add_agents(parser)
    add_retention(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
