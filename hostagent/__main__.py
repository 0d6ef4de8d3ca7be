# SPDX-License-Identifier: Apache-2.0
"""python -m hostagent --name h3 --interface h3-eth0 --run-dir DIR --web unix:DIR/web.sock

Runs in the host's network namespace until SIGTERM or SIGINT.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from hostagent.agent import GRACE_S, Agent, Settings
from hostagent.schedule import EMPTY, load_schedule
from policy.errors import SluiceError
from policy.schemes import SCHEMES


def main(argv: Sequence[str] | None = None) -> int:
    options = parser().parse_args(argv)
    logging.basicConfig(
        level=options.log_level, format=f"%(asctime)s {options.name} %(levelname)s %(message)s"
    )
    try:
        Agent(_settings(options)).run()
    except SluiceError as error:
        print(f"hostagent: {error}", file=sys.stderr)
        return 1
    return 0


def _settings(options: argparse.Namespace) -> Settings:
    schedule = load_schedule(options.schedule, options.name) if options.schedule else EMPTY
    scheme = SCHEMES.get(schedule.scheme)
    return Settings(
        name=options.name,
        interface=options.interface,
        run_dir=options.run_dir,
        web=options.web,
        schedule=schedule,
        start_file=options.start_file,
        congestion_control=options.congestion_control or (scheme.congestion_control if scheme else None),
        use_bpf=not options.no_bpf,
        grace_s=options.grace,
        realtime=not options.no_realtime,
    )


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hostagent", description=__doc__)
    parser.add_argument("--name", required=True, help="of this host, as schedules and records call it")
    parser.add_argument("--interface", required=True, help="whose outgoing packets are tagged")
    parser.add_argument(
        "--run-dir", required=True, type=Path, help="for journal and spool; kept over restarts"
    )
    parser.add_argument("--web", required=True, help="unix:/PATH or http://HOST:PORT of the web process")
    parser.add_argument("--schedule", type=Path, help="JSON file of the run's flows")
    parser.add_argument(
        "--start-file",
        type=Path,
        help="the schedule begins at the epoch second that this file holds; the agent waits for the file",
    )
    parser.add_argument("--congestion-control", help="until the web process says what the policy wants")
    parser.add_argument("--no-bpf", action="store_true", help="no tagger, no congestion control of ours")
    parser.add_argument("--no-realtime", action="store_true", help="no priority over other processes")
    parser.add_argument(
        "--grace", type=float, default=GRACE_S, help="seconds after the last start until flows are given up"
    )
    parser.add_argument(
        "--log-level",
        default="INFO",
        choices=["DEBUG", "INFO", "WARNING", "ERROR"],
        help="least severity of what is logged",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
