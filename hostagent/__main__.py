# SPDX-License-Identifier: Apache-2.0
"""Run the agent of a host, in the host's network namespace, until SIGTERM or SIGINT."""

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

_EXAMPLE = (
    "example: python -m hostagent --name h3 --interface h3-eth0 "
    "--run-dir /var/lib/sluice/h3 --web unix:/run/sluice/web.sock"
)


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
        enrol=options.enrol,
    )


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m hostagent", description=__doc__, epilog=_EXAMPLE)
    parser.add_argument(
        "--name", required=True, help="name of this host in schedules and flow records, for example h3"
    )
    parser.add_argument(
        "--interface",
        required=True,
        help="interface whose outgoing packets the agent tags, for example h3-eth0",
    )
    parser.add_argument(
        "--run-dir",
        required=True,
        type=Path,
        metavar="DIR",
        help="folder for journal and spool; use the same one after a restart",
    )
    parser.add_argument(
        "--web",
        required=True,
        metavar="URL",
        help="the web process: unix:/PATH, or https://HOST:PORT of its --agents",
    )
    parser.add_argument(
        "--enrol",
        metavar="TOKEN",
        help="token from `sluice enrol NAME`, or /PATH of a file with it; needed at the first start with https://",
    )
    parser.add_argument(
        "--schedule", type=Path, metavar="FILE", help="JSON file with the run's flows; default: no flows"
    )
    parser.add_argument(
        "--start-file",
        type=Path,
        metavar="FILE",
        help="file with the epoch second at which the schedule starts; the agent waits until it exists; "
        "default: the schedule starts at once",
    )
    parser.add_argument(
        "--congestion-control",
        metavar="NAME",
        help="congestion control until the web process sends a policy; default: that of the schedule's scheme",
    )
    parser.add_argument(
        "--no-bpf", action="store_true", help="load no BPF: no tags, no declared flows, no control of Sluice"
    )
    parser.add_argument(
        "--no-realtime", action="store_true", help="run without priority over other processes"
    )
    parser.add_argument(
        "--grace",
        type=float,
        default=GRACE_S,
        metavar="SECONDS",
        help="time after the last start until active flows are recorded as unfinished; default: %(default)s",
    )
    parser.add_argument(
        "--log-level",
        default="INFO",
        choices=["DEBUG", "INFO", "WARNING", "ERROR"],
        help="least level of the messages on standard error; default: %(default)s",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
