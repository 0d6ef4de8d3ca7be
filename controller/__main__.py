# SPDX-License-Identifier: Apache-2.0
"""`python -m controller`: the SDN controller as a process."""

from __future__ import annotations

import argparse
import logging
import signal
import ssl
import sys
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from controller import END_SIGNALS, tls
from policy.errors import FieldError, SluiceError


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m controller", description=__doc__)
    parser.add_argument(
        "--store",
        required=True,
        metavar="URL",
        help="sqlite:////path/to/store.db, or the URL of a PostgreSQL database",
    )
    parser.add_argument(
        "--listen",
        default="127.0.0.1:6653",
        metavar="ADDRESS",
        help="where switches connect: ADDRESS:PORT or unix:PATH (default %(default)s)",
    )
    files = parser.add_argument_group("OpenFlow over TLS (all three options, or none)")
    files.add_argument("--tls-key", type=Path, metavar="PEM", help="the controller's private key")
    files.add_argument("--tls-cert", type=Path, metavar="PEM", help="the controller's certificate")
    files.add_argument(
        "--tls-ca",
        type=Path,
        metavar="PEM",
        help="the authority that has signed the certificates of the switches",
    )
    parser.add_argument("--verbose", action="store_true", help="log every request")
    return parser


def configure_logging(*, verbose: bool) -> None:
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(name)s: %(message)s",
    )
    # os-ken logs every byte of a malformed message. connection.py logs the reason in one line.
    logging.getLogger("os_ken").setLevel(logging.CRITICAL)


def main() -> int:
    options = parser().parse_args()
    # Before any library starts a thread (numpy does), because threads inherit the mask.
    # `Launcher.run` waits for the signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, END_SIGNALS)
    configure_logging(verbose=options.verbose)
    try:
        check_url(options.store)
        context = tls_context(options)
        from controller import launcher, listener

        listening = listener.bind(options.listen)
        logging.getLogger("controller").info("listening on %s", options.listen)
        return launcher.Launcher(listening, options.store, context).run()
    except SluiceError as error:
        print(f"controller: {error}", file=sys.stderr)
        return 2


def tls_context(options: argparse.Namespace) -> ssl.SSLContext | None:
    """Return the TLS settings of the three options; None if all are missing."""
    given = {"--tls-key": options.tls_key, "--tls-cert": options.tls_cert, "--tls-ca": options.tls_ca}
    missing = [name for name, path in given.items() if path is None]
    if len(missing) == len(given):
        return None
    if missing:
        raise FieldError(missing[0], f"is missing. TLS needs all of {', '.join(given)}")
    return tls.server_context(options.tls_key, options.tls_cert, options.tls_ca)


def check_url(url: str) -> None:
    """Raise FieldError if this is no store URL. A store that is away is no error."""
    try:
        make_url(url).get_dialect()
    except (ArgumentError, ImportError) as error:
        problem = f"{url!r} is no store URL: {error}. Give for example sqlite:////path/to/store.db"
        raise FieldError("--store", problem) from error


if __name__ == "__main__":
    sys.exit(main())
