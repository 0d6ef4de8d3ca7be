# SPDX-License-Identifier: Apache-2.0
"""`sluice web`: REST API and dashboard as a service."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from sluice.policy.alert_rules import DEFAULT_RULES, RULES, AlertRule, rule_problems
from sluice.policy.errors import EnvironmentLacking, FieldError
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Flag, ListOf, Whole
from sluice.policy.wire.access import AGENT_LIFE_S
from sluice.runtime.notify import Notifier
from sluice.runtime.settings import Service
from sluice.runtime.settings.kinds import (
    Address,
    Age,
    CountOrForEver,
    FileToWrite,
    Folder,
    HostName,
    SecretFile,
    StoreUrl,
    is_loopback,
)
from sluice.runtime.settings.webhook_url import WebhookUrl
from sluice.store.retention import Retention

if TYPE_CHECKING:
    from sluice.webui.alerts.settings import AlertSettings
    from sluice.webui.event_log import EventLog
    from sluice.webui.server import ServerSettings

log = logging.getLogger(__name__)

DEFAULT_LISTEN = "127.0.0.1:8080"
PLAINTEXT = (
    "{address} is reachable from other machines, and this address has no TLS: listen on 127.0.0.1 behind a proxy with"
    " TLS (SSH forwarding is one), or say --plaintext-beyond-loopback. Agents of other machines use TLS at --agents"
)
"""The problem with an address beyond the loopback."""


@dataclass(frozen=True)
class WebOptions:
    """The settings of the web process."""

    store: str = entry(
        StoreUrl(),
        "Store with the network, the policy and the state: SQLite, or the URL of a PostgreSQL database.",
        default="sqlite:////var/lib/sluice/store.db",
    )
    store_password_file: Path | None = entry(
        SecretFile(credential="store-password"), "File with the password of the database.", default=None
    )
    listen: tuple[str, ...] = entry(
        ListOf(Address(), longest=16),
        f"Addresses to serve on. Without this and without unix, it is {DEFAULT_LISTEN}. The flag is repeatable.",
        default=(),
    )
    allowed_hosts: tuple[str, ...] = entry(
        ListOf(HostName(), longest=64),
        "Names under which browsers reach the process, besides localhost and the addresses of listen. Others get 421."
        " The flag is repeatable.",
        default=(),
    )
    plaintext_beyond_loopback: bool = entry(
        Flag(),
        "Serve other machines without TLS. Needed if an address of listen is not on the loopback, because anyone on"
        " the way reads tokens there.",
        default=False,
    )
    unix: Path | None = entry(FileToWrite(), "Serve on this Unix socket.", default=None)
    agents: str | None = entry(
        Address(),
        "Serve agents of other machines at this address, with TLS. Each needs a certificate (`sluice enrol`).",
        default=None,
    )
    authority: Path | None = entry(
        Folder(),
        "Folder of the authority that signs the agents' certificates; made if missing. Without it, it is the folder"
        " authority next to the generated token.",
        default=None,
    )
    certificate_life: float = entry(
        Age(),
        "How long an agent's certificate is valid. The agent renews it after half of this.",
        default=AGENT_LIFE_S,
    )
    token_file: Path | None = entry(
        SecretFile(credential="token"),
        "File with the token that a policy change needs. Without it, the token is that of the variable SLUICE_TOKEN, "
        "or a generated one in a file that the log names.",
        default=None,
    )
    threads: int = entry(
        Whole(1, 1000),
        "Reads that one worker answers at the same time. Changes, agents and /health have threads of their own.",
        default=8,
    )
    most_connections: int = entry(
        Whole(16, 100_000),
        "Connections that one worker keeps open at TCP addresses. The one that has waited longest makes room. As many"
        " at the Unix socket and at the address for agents.",
        default=4000,
    )
    most_streams: int = entry(
        Whole(8, 100_000),
        "Event streams of one worker for clients that send a token; a sixteenth as many for others. More get 429.",
        default=1000,
    )
    workers: int = entry(Whole(1, 64), "Worker processes.", default=1)
    runs: Path | None = entry(
        Folder(),
        "Folder of runs that the page /runs shows, and in which it starts runs. Without it, there are none.",
        default=None,
    )
    simulations: int = entry(
        Whole(1, 64), "Simulations that may run at a time, started from the page /runs.", default=2
    )
    fsync: bool = entry(
        Flag(),
        "Write every delivery to the device before its answer, so that it survives a power failure.",
        default=True,
    )
    event_log: Path | None = entry(
        FileToWrite(dash=True), "Write each event as a line of JSON into this file.", default=None
    )
    keep_flows: float = entry(Age(), "How long to keep flow records.", default=Retention.flows_s)
    keep_samples: float = entry(
        Age(), "How long to keep port samples and replaced thresholds.", default=Retention.samples_s
    )
    keep_events: float = entry(Age(), "How long to keep events.", default=Retention.events_s)
    keep_agents: float = entry(
        Age(),
        "How long /health lists a silent agent that neither the network nor a certificate names.",
        default=Retention.agents_s,
    )
    most_flows: float = entry(
        CountOrForEver(), "How many flow records to keep at most, of any age.", default=Retention.most_flows
    )
    webhook: str | None = entry(
        WebhookUrl(),
        "Send each alert that fires or resolves to this address, as a POST of JSON. Only this file can have it.",
        default=None,
    )
    webhook_token_file: Path | None = entry(
        SecretFile(credential="webhook-token"),
        "File with a token that the webhook gets in the header Authorization.",
        default=None,
    )
    alerts: tuple[AlertRule, ...] = entry(
        RULES,
        "Rules of the alerts, in place of the default ones. The API can replace them.",
        default=DEFAULT_RULES,
    )


def run(options: WebOptions) -> int:
    """Serve until a signal. Raises SluiceError."""
    from sqlalchemy.exc import SQLAlchemyError

    from sluice.store.engine import open_store, with_password
    from sluice.store.failures import AWAY, DISK_FULL, failure_of
    from sluice.webui.auth import find_token
    from sluice.webui.authority import Authority
    from sluice.webui.event_log import EventLog

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    store_url = with_password(options.store, options.store_password_file)
    try:
        engine = open_store(store_url)
        if options.event_log:
            _check_event_log(EventLog(engine, str(options.event_log)))
        engine.dispose()
    except SQLAlchemyError as error:
        failure = failure_of(error)
        if failure != DISK_FULL:
            why = getattr(error, "orig", error) if failure == AWAY else failure.problem
            raise EnvironmentLacking(f"cannot open the store: {why}") from error
        log.error("%s", failure.problem)
    token, source = find_token(options.token_file)
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
    from sluice.webui.run_manager import ManagerProcess
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


def _check_event_log(event_log: EventLog) -> None:
    """Report a problem with the event log before the workers start; each worker opens it again."""
    event_log.write_new()
    event_log.close()


def _server_settings(options: WebOptions, store_url: str, token: str) -> ServerSettings:
    from sluice.webui.auth import default_authority_path
    from sluice.webui.server import ServerSettings

    return ServerSettings(
        options=options,
        store_url=store_url,
        token=token,
        listen=options.listen or (() if options.unix else (DEFAULT_LISTEN,)),
        authority=options.authority or default_authority_path(),
        retention=retention(options),
        alerts=_alert_settings(options),
    )


def _alert_settings(options: WebOptions) -> AlertSettings:
    from sluice.webui.alerts.settings import AlertSettings
    from sluice.webui.alerts.webhook import Webhook
    from sluice.webui.auth import read_token

    token = read_token(options.webhook_token_file) if options.webhook_token_file else None
    return AlertSettings(options.alerts, Webhook(options.webhook, token) if options.webhook else None)


def problems(options: WebOptions) -> Iterator[FieldError]:
    """Plain text beyond the loopback needs a word, the agents' address must be another one, a certificate must end."""
    for address in options.listen:
        if not is_loopback(address) and not options.plaintext_beyond_loopback:
            yield FieldError("listen", PLAINTEXT.format(address=address))
    if options.agents and options.agents in options.listen:
        yield FieldError("agents", f"{options.agents} is also an address of listen; use another port")
    yield from rule_problems("alerts", options.alerts)
    yield from _webhook_problems(options)
    if math.isinf(options.certificate_life):
        yield FieldError("certificate_life", 'must be a time such as "30d", because a certificate must end')


def _webhook_problems(options: WebOptions) -> Iterator[FieldError]:
    """A token needs a receiver, and TLS on its way to another machine."""
    if options.webhook_token_file is None:
        return
    if options.webhook is None:
        yield FieldError("webhook_token_file", "there is no webhook; set webhook, or omit this")
        return
    if not _is_protected(urlsplit(options.webhook)):
        yield FieldError(
            "webhook_token_file",
            "anyone on the way reads the token, because webhook has no TLS; use https://",
        )


def _is_protected(url: SplitResult) -> bool:
    """Return whether no one on the way reads what goes to this address."""
    host = url.hostname or ""
    try:
        return url.scheme == "https" or is_loopback(f"[{host}]:0" if ":" in host else f"{host}:0")
    except ValueError:  # a name that only a resolver understands
        return False


def retention(options: WebOptions) -> Retention:
    """Return what the store keeps."""
    return Retention(
        flows_s=_finite(options.keep_flows),
        samples_s=_finite(options.keep_samples),
        events_s=_finite(options.keep_events),
        agents_s=_finite(options.keep_agents),
        most_flows=int(options.most_flows) if math.isfinite(options.most_flows) else None,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


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
)
