# SPDX-License-Identifier: Apache-2.0
"""The settings of the web process, its start by `sluice web`, and the options that other commands share with it."""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sluice.policy.errors import EnvironmentLacking, FieldError
from sluice.policy.retention import Retention
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Flag, ListOf, Whole
from sluice.policy.wire.access import AGENT_LIFE_S
from sluice.runtime import logs
from sluice.runtime.lifecycle import Notifier
from sluice.runtime.settings import Service, kinds
from sluice.runtime.settings.service import add_checked_flags
from sluice.runtime.token_file import default_authority_path, find_token

if TYPE_CHECKING:
    from sluice.webui.server import ServerSettings

DEFAULT_LISTEN = "127.0.0.1:8080"


@dataclass(frozen=True)
class WebOptions:
    """The settings of the web process."""

    store: str = entry(
        kinds.StoreUrl(),
        "Store with the network, the policy and the state: SQLite, or the URL of a PostgreSQL database.",
        default="sqlite:////var/lib/sluice/store.db",
    )
    store_password_file: Path | None = entry(
        kinds.SecretFile(credential="store-password"), "File with the password of the database.", default=None
    )
    listen: tuple[str, ...] = entry(
        ListOf(kinds.Address(), longest=16),
        f"Addresses to serve on. Without this and without unix, it is {DEFAULT_LISTEN}. The flag is repeatable.",
        default=(),
    )
    allowed_hosts: tuple[str, ...] = entry(
        ListOf(kinds.HostName(), longest=64),
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
    unix: Path | None = entry(kinds.FileToWrite(), "Serve on this Unix socket.", default=None)
    agents: str | None = entry(
        kinds.Address(),
        "Serve agents of other machines at this address, with TLS. Each needs a certificate (`sluice enrol`).",
        default=None,
    )
    authority: Path | None = entry(
        kinds.Folder(),
        "Folder of the authority that signs the agents' certificates; made if missing. Without it, it is the folder"
        " authority next to the generated token.",
        default=None,
    )
    certificate_life: float = entry(
        kinds.Age(),
        "How long an agent's certificate is valid. The agent renews it after half of this.",
        default=AGENT_LIFE_S,
    )
    token_file: Path | None = entry(
        kinds.SecretFile(credential="token"),
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
    most_agents: int = entry(
        Whole(1, 100_000), "Agents that may report. Those that are known have room in any case.", default=1000
    )
    workers: int = entry(Whole(1, 64), "Worker processes.", default=1)
    runs: Path | None = entry(
        kinds.Folder(),
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
        kinds.FileToWrite(dash=True), "Write each event as a line of JSON into this file.", default=None
    )
    keep_flows: float = entry(kinds.Age(), "How long to keep flow records.", default=Retention.flows_s)
    keep_samples: float = entry(
        kinds.Age(), "How long to keep port samples and replaced thresholds.", default=Retention.samples_s
    )
    keep_events: float = entry(kinds.Age(), "How long to keep events.", default=Retention.events_s)
    keep_agents: float = entry(
        kinds.Age(),
        "How long /health lists a silent agent that neither the network nor a certificate names.",
        default=Retention.agents_s,
    )
    most_flows: float = entry(
        kinds.CountOrForEver(),
        "How many flow records to keep at most, of any age.",
        default=Retention.most_flows,
    )

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where to serve, each HOST:PORT."""
        return self.listen or (() if self.unix else (DEFAULT_LISTEN,))

    @property
    def authority_folder(self) -> Path:
        """Folder of the agents' certificate authority; needed with an address for agents."""
        return self.authority or default_authority_path()


def problems(options: WebOptions) -> Iterator[FieldError]:
    """Plain text beyond the loopback needs a word, the agents' address must be another one, a certificate must end."""
    for address in options.listen:
        if not kinds.is_loopback(address) and not options.plaintext_beyond_loopback:
            yield FieldError("listen", kinds.PLAINTEXT.format(address=address))
    if options.agents and options.agents in options.listen:
        yield FieldError("agents", f"{options.agents} is also an address of listen; use another port")
    if math.isinf(options.certificate_life):
        yield FieldError("certificate_life", 'must be a time such as "30d", because a certificate must end')


_TIMES = {
    "keep_flows": "flows_s",
    "keep_samples": "samples_s",
    "keep_events": "events_s",
    "keep_agents": "agents_s",
}
"""Setting → field of Retention."""
_KEYS = (*_TIMES, "most_flows")


def retention_of(options: Any) -> Retention:
    """Return what the store keeps, by WebOptions or by the options of `add_retention`."""
    kept = {key: value if math.isfinite(value := getattr(options, key)) else None for key in _KEYS}
    most = kept.pop("most_flows")
    times_s = {field: kept[key] for key, field in _TIMES.items()}
    return Retention(**times_s, most_flows=None if most is None else int(most))


# ── Options of the commands that start a web process ─────────────────────────────────────────────────────────────────


def add_retention(parser: argparse.ArgumentParser) -> None:
    """Add the options for what the store keeps; `retention_of` reads them."""
    group = parser.add_argument_group(
        "what the store keeps", f'a time is 90s, 10min, 12h, 7d or similar, or "{kinds.FOR_EVER}"'
    )
    add_checked_flags(group, WebOptions, _KEYS)


def retention_argv(kept: Retention) -> list[str]:
    """Return the options that pass these settings to another process."""
    argv = []
    for key, field in _TIMES.items():
        keep_s = getattr(kept, field)
        argv += [f"--{key.replace('_', '-')}", kinds.FOR_EVER if keep_s is None else f"{keep_s:.3f}s"]
    return [*argv, "--most-flows", kinds.FOR_EVER if kept.most_flows is None else str(kept.most_flows)]


# ── The service ──────────────────────────────────────────────────────────────────────────────────────────────────────


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
    from sluice.webui.authority import Authority
    from sluice.webui.housekeeping import EventLog
    from sluice.webui.server import ServerSettings

    logs.start()
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
    if options.agents:
        authority = options.authority_folder
        Authority(authority).web_chain()  # a problem with the folder shows before the workers start
        print(f"agents on https://{options.agents}, authority in {authority}", flush=True)
    for address in options.addresses:
        print(f"dashboard on http://{address}", flush=True)
        if not kinds.is_loopback(address):
            log.warning("%s has no TLS: anyone on the way reads tokens and all answers", address)
    print(f"a policy change needs the token in {source}", flush=True)
    _serve(ServerSettings(options, store_url, token))
    return 0


def _serve(settings: ServerSettings) -> None:
    """Serve until a signal, and end the runs of the page /runs with the server."""
    from sluice.webui.runs import ManagerProcess
    from sluice.webui.server import Server

    options = settings.options
    if options.runs is None:
        Server(settings, Notifier()).run()
        return
    manager = ManagerProcess(options.runs, options.simulations)
    manager.start()
    try:
        Server(replace(settings, run_manager=manager.socket), Notifier(), manager.check).run()
    finally:
        manager.stop()


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
