# SPDX-License-Identifier: Apache-2.0
"""`sluice top`: the live picture in the terminal, from the REST API's stream of snapshots, or from folders of runs."""

import argparse
import json
import time
import urllib.request
from collections.abc import Generator, Iterator, Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from sluice.commands.arguments import command_parser
from sluice.policy import tags
from sluice.policy.errors import SluiceError
from sluice.policy.units import format_bytes
from sluice.policy.wire.records import ALL
from sluice.remote import add_remote
from sluice.runs.folder import RUN, describe, entries
from sluice.runs.progress import RUNNING
from sluice.terminal import about, console, flows_table, milliseconds, partial_table

EVERY_S = 0.5
MOST_SHOWN = 20


def watch_runs(folders: Sequence[Path], *, once: bool) -> int:
    """Draw until no run is left or Ctrl-C, or print one picture. Raises SluiceError if the folders hold no run."""
    if not _runs(folders):
        listed = ", ".join(map(str, folders))
        raise SluiceError(f"{listed}: no run and no sweep is there; give the --out of `sluice run`")
    if once:
        console.print(runs_picture(folders))
        return 0
    with Live(runs_picture(folders), console=console, auto_refresh=False) as live:
        try:
            while any(run["state"] == RUNNING for run in _runs(folders)):
                time.sleep(EVERY_S)
                live.update(runs_picture(folders), refresh=True)
        except KeyboardInterrupt:
            return 0
    return 0


def runs_picture(folders: Sequence[Path]) -> RenderableType:
    """Return the runs that are under way; the newest others as lines."""
    runs = _runs(folders)
    running = [run for run in runs if run["state"] == RUNNING]
    others = [run for run in runs if run["state"] != RUNNING]
    parts: list[RenderableType] = [part for run in running for part in _parts(run)]
    return Group(*parts, *(Text(_line(run)) for run in others[: max(0, MOST_SHOWN - len(running))]))


def _runs(folders: Sequence[Path]) -> list[dict[str, Any]]:
    found = [entry for folder in folders for entry in entries(folder)]
    return [{**describe(entry), "folder": str(entry.path)} for entry in found]


def _parts(run: Mapping[str, Any]) -> list[RenderableType]:
    progress = run["progress"]
    left = progress["remaining_s"]
    said = f"{about(left)} left" if left is not None else "time left still unknown"
    what = "flows" if run["kind"] == RUN else "points"
    head = Text(
        f"{run['folder']}: {', '.join(run['schemes'])} on the {run['on']}, {progress['share']:.0%}, "
        f"{progress['recorded']}/{progress['scheduled']} {what}, {said}",
        style="bold",
    )
    return [head, partial_table(run["figures"])] if run["figures"] else [head]


def _line(run: Mapping[str, Any]) -> str:
    reason = f": {run['reason']}" if run["reason"] else ""
    if run["points"] is not None:
        return f"{run['folder']}: sweep, {run['finished']} of {run['points']} points done{reason}"
    if run["kind"] != RUN:
        return f"{run['folder']}: sweep on the {run['on']}, not begun{reason}"
    return f"{run['folder']}: {run['schemes'][0]} on the {run['on']}, {run['state']}{reason}"


TIMEOUT_S = 10.0
RETRY_S = 1.0
WIDTH_IN_SCRIPTS = 120
_AWAY = (OSError, HTTPException, ValueError)
"""What a server that is away, or another server, causes."""

Snapshot = Mapping[str, Any]


def parser() -> argparse.ArgumentParser:
    parser = command_parser("top")
    add_remote(parser, changes=False)
    parser.add_argument(
        "folders",
        type=Path,
        nargs="*",
        metavar="DIR",
        help="show the runs in these folders, of the simulator, too, instead of a web process",
    )
    parser.add_argument("--once", action="store_true", help="print one picture and end, for scripts")
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if arguments.folders:
        return watch_runs(arguments.folders, once=arguments.once)
    return run_top(arguments.url, once=arguments.once)


def run_top(url: str, *, once: bool) -> int:
    """Draw until Ctrl-C, or print one picture. Raises SluiceError if no web process answers at the start."""
    stream = snapshots(url)
    try:
        first = next(stream)
    except (*_AWAY, StopIteration) as error:
        raise SluiceError(
            f"no Sluice answers at {url} ({_reason(error)}): start `sluice demo`, or give --url; "
            "for a run of the simulator, give its folder"
        ) from None
    if once:
        target = console if console.is_terminal else Console(width=WIDTH_IN_SCRIPTS)
        target.print(picture(first))
        return 0
    with Live(picture(first), console=console, screen=console.is_terminal, auto_refresh=False) as live:
        try:
            _follow(url, stream, live)
        except KeyboardInterrupt:
            return 0
    return 0


def _follow(url: str, stream: Iterator[Snapshot], live: Live) -> None:
    """Draw each snapshot. While the web process does not answer, the last picture stays, with a remark."""
    last: RenderableType = live.renderable
    while True:
        try:
            for snapshot in stream:
                last = picture(snapshot)
                live.update(last, refresh=True)
            reason = "the stream ended"
        except _AWAY as error:
            reason = _reason(error)
        live.update(Group(Text(f"{url} does not answer: {reason}", style="bold red"), last), refresh=True)
        time.sleep(RETRY_S)
        stream = snapshots(url)


def _reason(error: BaseException) -> str:
    return str(error)[:120] or type(error).__name__


def snapshots(url: str) -> Generator[Snapshot, None, None]:
    """Yield the snapshots of /api/v1/events. Raises OSError and HTTPException if the server is away, and ValueError for
    a wrong address or other content."""
    with urllib.request.urlopen(f"{url.rstrip('/')}/api/v1/events", timeout=TIMEOUT_S) as answer:
        name = ""
        for line in answer:
            field, _, value = line.rstrip(b"\r\n").partition(b": ")
            if field == b"event":
                name = value.decode()
            elif field == b"data" and name == "snapshot":
                yield json.loads(value)


# ── The picture ────────────────────────────────────────────────────────────────────────────────────────────────────


def picture(snapshot: Snapshot) -> Group:
    traffic = snapshot["traffic"][ALL]
    problems = [f"{place['where']}: {place['problem']}" for place in snapshot["health"]["problems"]]
    flaws = [
        f"the figures are not valid: {flaw['problem']}; {flaw['remedy']}"
        for flaw in snapshot["validity"]["reasons"]
    ]
    deadlines, misses = traffic["deadlines"], "no flows with deadlines"
    if deadlines["n"]:
        share = f"{deadlines['miss_ratio']:.1%}"
        misses = f"deadlines: {deadlines['missed']} of {deadlines['n']} missed ({share})"
    return Group(
        _head(snapshot),
        *(Text(problem, style="bold red") for problem in problems),
        *(Text(flaw, style="bold yellow") for flaw in flaws),
        *map(_demoted, snapshot["sanctions"]),
        _fct_table(traffic["fct"]),
        Text(misses),
        _agents(snapshot["health"]["agents"]),
        _port_table(snapshot["ports"], snapshot["thresholds"]),  # last: a small terminal shows as many as fit
    )


def _head(snapshot: Snapshot) -> Text:
    health, policy = snapshot["health"], snapshot["policy"]
    controller = health["controller"]
    clock = time.strftime("%H:%M:%S", time.localtime(snapshot["at"]))
    scheme = (
        f"policy {policy['version']}: {policy['policy']['scheme']} ({policy['state']})"
        if policy
        else "no policy"
    )
    alive = "up" if controller["alive"] else "DOWN"
    switches = f"controller {alive}, {controller['connected']}/{controller['expected']} switches"
    rate = f"{snapshot['traffic'][ALL]['fct']['flows_per_s']:.1f} flows/s"
    style = "bold" if health["status"] == "ok" else "bold red"
    return Text(f"{clock}  {health['status']}  {scheme}  {switches}  {rate}", style=style)


def _fct_table(fct: Mapping[str, Any]) -> Table:
    rows = []
    for name in ("small", "medium", "large", "all"):
        row = fct["classes"][name]
        rows.append((name, str(row["n"]), *(milliseconds(row[key]) for key in ("mean", "p50", "p95", "p99"))))
    title = f"FCT in ms, the last {fct['window_s']:.0f} s"
    return flows_table(title, ("n", "mean", "median", "p95", "p99"), rows)


def _demoted(sanction: Mapping[str, Any]) -> Text:
    since = time.strftime("%H:%M:%S", time.localtime(sanction["since"]))
    sent, limit = format_bytes(sanction["sent_bytes"]), format_bytes(sanction["limit_bytes"])
    is_urgent = tags.URGENCY_FIRST <= sanction["tag"] <= tags.URGENCY_LAST
    at_most = "its deadlines explain" if is_urgent else "a flow with correct tags sends"
    return Text(
        f"{sanction['host']} ({sanction['port']}) is demoted since {since}: {sanction['flow']} sent {sent} "
        f"under tag {sanction['tag']}; {at_most} at most {limit}",
        style="bold red",
    )


def _port_table(ports: Mapping[str, Any], thresholds: Mapping[str, Any]) -> Table:
    table = Table(title="ports", title_justify="left")
    for heading in ("port", "load", "Mb/s by queue", "thresholds"):
        table.add_column(heading, justify="right" if heading == "load" else "left")
    for name in sorted(set(ports) | set(thresholds), key=_natural):
        port = ports.get(name, {})
        load, rates_bps = port.get("load"), port.get("queue_rates_bps")
        rates = "–"
        if rates_bps is not None:
            last_busy = max((queue for queue, rate in enumerate(rates_bps) if rate), default=0)
            rates = "  ".join(f"{rate / 1e6:.2f}" for rate in rates_bps[: last_busy + 1])
        edges = thresholds.get(name, {}).get("thresholds_bytes", [])
        table.add_row(
            name,
            "–" if load is None else f"{load:.0%}",
            rates,
            " / ".join(format_bytes(edge) for edge in edges) or "–",
        )
    return table


def _natural(port: str) -> tuple[str, int, int]:
    """Return a key that sorts s2:10 after s2:9, and s10 after s9."""
    switch, _, number = port.partition(":")
    letters = switch.rstrip("0123456789")
    return letters, int(switch[len(letters) :] or 0), int(number) if number.isdigit() else 0


def _agents(agents: list[Mapping[str, Any]]) -> Text:
    silent = [agent["name"] for agent in agents if not agent["alive"]]
    waiting = sum(agent["status"].get("spool_depth") or 0 for agent in agents)
    text = f"agents: {len(agents) - len(silent)} of {len(agents)} up, {waiting} records in spools"
    if silent:
        return Text(f"{text}; silent: {', '.join(silent)}", style="bold red")
    return Text(text)
