# SPDX-License-Identifier: Apache-2.0
"""`sluice web`: REST API and dashboard as a service."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.lifecycle import Notifier
from sluice.runtime.settings import Service
from sluice.runtime.settings.kinds import is_loopback
from sluice.webui.options import DEFAULT_LISTEN, WebOptions, problems, retention_of

if TYPE_CHECKING:
    from sluice.webui.server import ServerSettings

log = logging.getLogger(__name__)

_NO_ALERTS = (
    "Prometheus judges the rules of /usr/share/sluice/prometheus/sluice.rules.yml, and Alertmanager sends the messages;"
    " omit the key"
)


def run(options: WebOptions) -> int:
    """Serve until a signal. Raises SluiceError."""
    from sqlalchemy.exc import SQLAlchemyError

    from sluice.store.engine import open_store, with_password
    from sluice.store.failures import AWAY, DISK_FULL, failure_of
    from sluice.webui.auth import find_token
    from sluice.webui.authority import Authority
    from sluice.webui.housekeeping import EventLog

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    store_url = with_password(options.store, options.store_password_file)
    try:
        engine = open_store(store_url)
        if options.event_log:  # a problem with it shows before the workers start, which open it again
            event_log = EventLog(engine, str(options.event_log))
            event_log.write_new()
            event_log.close()
        engine.dispose()
    except SQLAlchemyError as error:
        failure = failure_of(error)
        if failure != DISK_FULL:
            why = getattr(error, "orig", error) if failure == AWAY else failure.problem
            raise EnvironmentLacking(f"cannot open the store: {why}") from error
        log.error("%s", failure.problem)
    token, source = find_token(options.token_file, make=True)
    settings = _server_settings(options, store_url, token)
    if options.agents:
        Authority(settings.authority).web_chain()  # a problem with the folder shows before the workers start
        print(f"agents on https://{options.agents}, authority in {settings.authority}", flush=True)
    for address in settings.listen:
        print(f"dashboard on http://{address}", flush=True)
        if not is_loopback(address):
            log.warning("%s has no TLS: anyone on the way reads tokens and all answers", address)
    print(f"a policy change needs the token in {source}", flush=True)
    _serve(settings, options)
    return 0


def _serve(settings: ServerSettings, options: WebOptions) -> None:
    """Serve until a signal, and end the runs of the page /runs with the server."""
    from sluice.webui.runs import ManagerProcess
    from sluice.webui.server import Server

    if options.runs is None:
        Server(settings, Notifier()).run()
        return
    manager = ManagerProcess(options.runs, options.simulations)
    manager.start()
    try:
        Server(replace(settings, run_manager=manager.socket), Notifier(), manager.check).run()
    finally:
        manager.stop()


def _server_settings(options: WebOptions, store_url: str, token: str) -> ServerSettings:
    from sluice.webui.auth import default_authority_path
    from sluice.webui.server import ServerSettings

    return ServerSettings(
        options=options,
        store_url=store_url,
        token=token,
        listen=options.listen or (() if options.unix else (DEFAULT_LISTEN,)),
        authority=options.authority or default_authority_path(),
        retention=retention_of(options),
    )


SERVICE = Service(
    "web",
    "The web process: REST API, dashboard, metrics. Agents send their heartbeats and flow records to it.",
    WebOptions,
    run,
    examples="""\
  sluice web                                            the dashboard on http://127.0.0.1:8080
  sluice web --listen 127.0.0.1:8080 --listen 192.0.2.1:8080 --plaintext-beyond-loopback
  sluice web --agents 0.0.0.0:8443                      also agents of other machines, with certificates
  sluice web --keep-flows 7d --event-log /var/log/sluice-events.jsonl
  sluice web --config my.toml --check                   check a file before a restart
""",
    problems=problems,
    removed=dict.fromkeys(("alerts", "webhook", "webhook_token_file"), _NO_ALERTS),
)
