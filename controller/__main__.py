# SPDX-License-Identifier: Apache-2.0
"""`python -m controller`: the SDN controller as a process."""

from __future__ import annotations

import argparse
import logging
import signal
import sys

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from controller import END_SIGNALS
from policy.errors import FieldError, SluiceError


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__)
    parser.add_argument(
        "--store", required=True, metavar="URL", help="sqlite:////path/to/store.db, or PostgreSQL"
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:6653",
        metavar="ADDRESS",
        help="where switches connect: ADDRESS:PORT or unix:PATH (default %(default)s)",
    )
    parser.add_argument("--verbose", action="store_true", help="log every request")
    return parser.parse_args()


def configure_logging(*, verbose: bool) -> None:
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )
    # os-ken logs a malformed message with all of its bytes; what is worth saying of it, connection.py says.
    logging.getLogger("os_ken").setLevel(logging.CRITICAL)


def main() -> int:
    options = arguments()
    # Before any library starts a thread (numpy's do), so that every thread inherits it. `Launcher.run` waits for them.
    signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
    configure_logging(verbose=options.verbose)
    try:
        check_url(options.store)
        from controller import connection, launcher

        listening = connection.bind(options.listen)
        logging.getLogger("controller").info("listening on %s", options.listen)
        return launcher.Launcher(listening, options.store).run()
    except SluiceError as error:
        print(f"controller: {error}", file=sys.stderr)
        return 2


def check_url(url: str) -> None:
    """A store that is away is waited for; a URL that is none is an error at once."""
    try:
        make_url(url).get_dialect()
    except (ArgumentError, ImportError) as error:
        raise FieldError("store", f"{url!r} is no store URL: {error}") from error


if __name__ == "__main__":
    sys.exit(main())
