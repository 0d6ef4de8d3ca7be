# SPDX-License-Identifier: Apache-2.0
"""Run a command under one of Debian's kernels, or fetch these kernels.

    python -m tools.guests --fetch
    python -m tools.guests --kernel 6.1 -- .venv/bin/sluice doctor

The command runs as root in the current folder. The guest sees this machine's files. It may write everywhere, but only
its output folder is on this machine. Its clock is 5 to 20 times slower than a machine's.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from sluice.policy.errors import EnvironmentLacking, SluiceError
from tools.guests.kernels import CACHE, PROGRAMS, SERIES, fetch, program
from tools.guests.session import run_in_guest


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.guests",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--fetch", action="store_true", help="download the kernels that are missing")
    parser.add_argument("--kernel", choices=SERIES, default=SERIES[0])
    parser.add_argument("--cpus", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=3600, metavar="SECONDS")
    parser.add_argument("--output", type=Path, help="folder that the guest may write (default: a new one)")
    parser.add_argument("command", nargs="*")
    chosen = parser.parse_args(arguments)
    try:
        return fetch_all() if chosen.fetch else execute(chosen)
    except SluiceError as error:
        print(error, file=sys.stderr)
        return 1


def fetch_all() -> int:
    """Print why a guest cannot run here, if so. That is no error, because the tests are then skipped."""
    try:
        for name in PROGRAMS:
            program(name)
        for series in SERIES:
            fetch(series)
    except EnvironmentLacking as lacking:
        print(f"tests under other kernels will be skipped: {lacking}", file=sys.stderr)
    return 0


def execute(chosen: argparse.Namespace) -> int:
    output = chosen.output or Path(tempfile.mkdtemp(prefix="guest-", dir=CACHE))
    ended = run_in_guest(chosen.kernel, chosen.command, output, timeout_s=chosen.timeout, cpus=chosen.cpus)
    print(ended.output, end="")
    print(f"files: {output}", file=sys.stderr)
    return ended.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
