# SPDX-License-Identifier: Apache-2.0
"""Write the C headers that are made from policy/, or with --check name the stale ones."""

import argparse
import sys
from pathlib import Path

from sluice.policy import controls, tags

LAWS = Path(__file__).resolve().parents[1] / "dataplane" / "laws"
HEADERS = {"tags.gen.h": tags.c_header, "controls.gen.h": controls.c_header}


def stale() -> list[Path]:
    """The headers that differ from what policy/ says, or are missing."""
    return [
        LAWS / name
        for name, text in HEADERS.items()
        if not (LAWS / name).exists() or (LAWS / name).read_text() != text()
    ]


def main() -> int:
    """Return the exit status: 1 if --check finds a stale header."""
    parser = argparse.ArgumentParser(prog="python -m tools.headers", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, name the stale headers")
    options = parser.parse_args()
    headers = stale()
    if options.check:
        for path in headers:
            print(f"{path.relative_to(LAWS.parents[1])} is stale: run `make gen`", file=sys.stderr)
        return 1 if headers else 0
    for path in headers:
        path.write_text(HEADERS[path.name]())
    return 0


if __name__ == "__main__":
    sys.exit(main())
