# SPDX-License-Identifier: Apache-2.0
"""`sluice controller`: the SDN controller as a service."""

import logging
import resource
import signal
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Flag
from sluice.runtime import logs
from sluice.runtime.lifecycle import Notifier, end_signals
from sluice.runtime.settings import Service
from sluice.runtime.settings.kinds import Address, FileToRead, SecretFile, StoreUrl


@dataclass(frozen=True)
class ControllerOptions:
    """The settings of the controller."""

    store: str = entry(
        StoreUrl(),
        "Store with the network, the policy and the state: SQLite, or the URL of a PostgreSQL database.",
        default="sqlite:////var/lib/sluice/store.db",
    )
    store_password_file: Path | None = entry(
        SecretFile(credential="store-password"),
        "File with the password of the database.",
        default=None,
    )
    listen: str = entry(Address(unix=True), "Where switches connect.", default="127.0.0.1:6653")
    tls_key: Path | None = entry(
        SecretFile(credential="tls-key"),
        "PEM file with the controller's private key. OpenFlow over TLS needs key, certificate and authority.",
        default=None,
    )
    tls_cert: Path | None = entry(FileToRead(), "PEM file with the controller's certificate.", default=None)
    tls_ca: Path | None = entry(
        FileToRead(),
        "PEM file with the authority that has signed the certificates of the switches.",
        default=None,
    )
    verbose: bool = entry(Flag(), "Log every request.", default=False)


def run(options: ControllerOptions) -> int:
    """Serve until SIGTERM or SIGINT. Raises SluiceError."""
    # Before any library starts a thread (numpy does), because threads inherit the mask.
    # `Launcher.run` waits for the signals.
    signal.pthread_sigmask(signal.SIG_BLOCK, end_signals())
    logs.start(logging.DEBUG if options.verbose else logging.INFO)
    # os-ken logs every byte of a malformed message. connection.py logs the reason in one line.
    logging.getLogger("os_ken").setLevel(logging.CRITICAL)
    from sluice.controller import app, connection
    from sluice.store.engine import with_password

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each connection needs two descriptors
    store_url = with_password(options.store, options.store_password_file)
    check_store(store_url)
    context = None
    if options.tls_key is not None and options.tls_cert is not None and options.tls_ca is not None:
        context = connection.server_context(options.tls_key, options.tls_cert, options.tls_ca)
    listening = connection.bind(options.listen)
    logging.getLogger("controller").info("listening on %s", options.listen)
    return app.Launcher(listening, store_url, context, Notifier()).run()


def check_store(url: str) -> None:
    """Raise EnvironmentLacking if a later version has changed the store. One that is away may come back."""
    from sqlalchemy.exc import SQLAlchemyError

    from sluice.store.engine import open_store

    with suppress(SQLAlchemyError):
        open_store(url).dispose()


def problems(options: ControllerOptions) -> Iterator[FieldError]:
    """TLS needs all of its three files."""
    given = {"tls_key": options.tls_key, "tls_cert": options.tls_cert, "tls_ca": options.tls_ca}
    missing = [key for key, path in given.items() if path is None]
    if missing and len(missing) < len(given):
        yield FieldError(missing[0], f"is missing. TLS needs all of {', '.join(given)}")


SERVICE = Service(
    "controller",
    "The SDN controller: it keeps the rules of every switch at the policy, and adapts thresholds.",
    ControllerOptions,
    run,
    examples="""\
  sluice controller                                     switches on this machine, store in /var/lib/sluice
  sluice controller --listen 0.0.0.0:6653               switches on other machines
  sluice controller --config my.toml --check            check a file before a restart
""",
    problems=problems,
    removed={
        "share": "one controller leads all switches, and others wait; give each network a store of its own"
    },
)
