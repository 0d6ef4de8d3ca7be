# SPDX-License-Identifier: Apache-2.0
"""`sluice export`: the policy as the configuration of other switches."""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from sluice import sonic
from sluice.commands.arguments import DAY_S, SCENARIO_HELP, command_parser, file, load_share, number
from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.schemes.classes import lost
from sluice.policy.tags import EDGES_BYTES
from sluice.policy.thresholds.static import Traffic
from sluice.policy.units import format_bytes
from sluice.policy.workload.flows import Workload
from sluice.remote import Remote, add_remote
from sluice.runs.files import load_cdf, scenario_from_file

_EPILOG = """examples:
  sluice export sonic my.toml --interfaces Ethernet0,Ethernet4 --out qos.json
  sluice export sonic my.toml --interfaces Ethernet0 --traffic web-search:0.8 --traffic data-mining:0.5
  sluice export sonic --running --interfaces s1:1=Ethernet0,s1:2=Ethernet4 --only-maps
  sluice export sonic --running --interfaces h3=Ethernet0,any=Ethernet48 --follow 10 --out qos.json

The configuration goes to the standard output or to --out, everything else to the standard error. On the switch,
`sudo config load qos.json` adds it. docs/how-to/sonic.md says what was never tried on hardware.
"""
DEFAULT_LOAD = 0.8


def parser() -> argparse.ArgumentParser:
    parser = command_parser("export", _EPILOG)
    actions = parser.add_subparsers(dest="target", required=True, metavar="TARGET")
    sonic = actions.add_parser("sonic", help="SONiC: tables of config_db.json")
    add_remote(sonic, changes=False)
    sonic.add_argument("scenario", nargs="?", type=Path, help=SCENARIO_HELP)
    sonic.add_argument(
        "--running", action="store_true", help="the policy and thresholds of a running network"
    )
    sonic.add_argument(
        "--interfaces",
        type=_interfaces,
        required=True,
        metavar="NAMES",
        help="names of the switch's ports, separated by commas; with --running PLACE=NAME, where PLACE is a port of "
        "the network (s1:1), a host (h3) or any",
    )
    sonic.add_argument(
        "--traffic",
        type=_traffic,
        action="append",
        metavar="SIZES:LOAD",
        help="plan for this distribution and load, as web-search:0.8; may be repeated (default: the scenario's "
        "workload, or the flows that hosts have reported)",
    )
    sonic.add_argument(
        "--load", type=load_share, default=DEFAULT_LOAD, help="load of reported flows (default: 0.8)"
    )
    sonic.add_argument(
        "--only-maps",
        action="store_true",
        help="only TC_TO_QUEUE_MAP, the table that changes with thresholds",
    )
    sonic.add_argument(
        "--follow",
        type=_seconds,
        metavar="SECONDS",
        help="with --running: look again every so many seconds, and write what has changed, until Ctrl-C",
    )
    sonic.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the switch's present config_db.json: its lossless classes (PFC) stay, and no TCP comes into them",
    )
    sonic.add_argument("--out", type=file, metavar="FILE", help="where the configuration goes")
    return parser


def execute(arguments: argparse.Namespace) -> int:
    if arguments.running == (arguments.scenario is not None):
        raise SluiceError("give either a scenario or --running")
    if arguments.follow is not None and not arguments.running:
        raise SluiceError("--follow needs --running, because a scenario does not change")
    if arguments.follow is not None and arguments.out is None:
        raise SluiceError("--follow needs --out, where the tables go")
    config = _config(arguments.config) if arguments.config else None
    lossless = sonic.NO_LOSSLESS if config is None else sonic.lossless_classes(config, arguments.interfaces)
    if arguments.running:
        return _export_running(arguments, config, lossless)
    scenario, *_ = scenario_from_file(arguments.scenario)
    traffic, workload = arguments.traffic, scenario.workload
    if not traffic and isinstance(workload, Workload) and workload.load is not None:
        traffic = [Traffic(workload.sizes, workload.load, workload.scale, "the scenario's workload")]
    planning = sonic.planned(scenario.policy, traffic or [], lossless)
    ports = [sonic.SonicPort(name, planning.thresholds_bytes) for name in arguments.interfaces]
    tables = (sonic.adapted_tables if arguments.only_maps else sonic.config_tables)(
        planning.plan, ports, lossless
    )
    _write(tables, arguments.out)
    _explain(planning, lossless, config, tables)
    return 0


def _config(path: Path) -> dict[str, Any]:
    """Return the tables of a config_db.json. Raises SluiceError if it is none."""
    try:
        config = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SluiceError(f"--config {path}: {error}") from None
    for table in sonic.READ_TABLES:
        rows = config.get(table, {}) if isinstance(config, dict) else None
        if not isinstance(rows, dict) or not all(isinstance(row, dict) for row in rows.values()):
            raise SluiceError(f"--config {path}: is no config_db.json: {table} must be a table of rows")
    return dict(config)


def _export_running(
    arguments: argparse.Namespace, config: dict[str, Any] | None, lossless: sonic.Lossless
) -> int:
    remote = Remote(arguments.url, None)
    following = sonic.Following(
        remote,
        arguments.interfaces,
        arguments.load,
        arguments.traffic,
        only_maps=arguments.only_maps,
        lossless=lossless,
    )
    written, planning = following.look()
    _write(written, arguments.out)
    _explain(planning, lossless, config, written)
    problem = ""
    try:
        while arguments.follow is not None:
            time.sleep(arguments.follow)
            try:
                tables, _ = following.look()
            except SluiceError as error:
                # A problem ends nothing: it is said once, and the next look writes what is missing.
                if str(error) != problem:
                    print(f"{error}; trying again every {arguments.follow:g} s", file=sys.stderr)
                problem = str(error)
                continue
            if tables != written:
                _write(tables, arguments.out)
                written = tables
            if problem:
                print("It works again.", file=sys.stderr)
            problem = ""
    except KeyboardInterrupt:
        print("The file keeps what it has.", file=sys.stderr)
    return 0


def _write(tables: sonic.Tables, out: Path | None) -> None:
    text = json.dumps(tables, indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    new = out.with_name(f"{out.name}.new")  # nobody reads half of the tables
    new.write_text(text)
    new.replace(out)


def _explain(
    planning: sonic.Planned, lossless: sonic.Lossless, config: dict[str, Any] | None, tables: sonic.Tables
) -> None:
    """Say on the standard error what the classes are, what is lost by them, and what the switch does otherwise."""
    plan, traffics = planning.plan, planning.traffic
    adapts = plan.policy.definition.threshold_rule.adapts
    losses = lost(plan, [traffic.model(plan.policy) for traffic in traffics]) if adapts else ()
    console = Console(stderr=True, highlight=False)
    edges = [format_bytes(edge) for edge in plan.edges_bytes if edge < EDGES_BYTES[-1]]
    console.print(f"{plan.classes} traffic classes; edges of bytes sent: {', '.join(edges) or 'none'}")
    if losses:
        table = Table("traffic", "load", "mean slowdown against 40 edges")
        for traffic, loss in zip(traffics, losses, strict=True):
            table.add_row(traffic.name, f"{traffic.load:g}", f"+{100 * max(loss, 0):.1f} %")
        console.print(table)
    for sentence in sonic.differences(plan, lossless):
        console.print(f"- {sentence}")
    for key in sonic.overlaps(config or {}, tables):
        console.print(
            f"- The switch's row QUEUE|{key} names several queues and would stay beside these: delete it."
        )
    if config is None:
        console.print(
            "- If ports have PFC, as for RDMA, repeat this with --config config_db.json of the switch."
        )


def _interfaces(text: str) -> dict[str, str]:
    """Return SONiC's name of each port → the place that it stands for; its own name without one."""
    places: dict[str, str] = {}
    for part in text.split(","):
        place, separator, name = part.strip().partition("=")
        name = name if separator else place
        try:
            sonic.check_interface(name)
        except SluiceError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if name in places or (place in places.values() and place != sonic.ANY):
            raise argparse.ArgumentTypeError(f"{part.strip()} is there twice")
        places[name] = place
    return places


def _traffic(text: str) -> Traffic:
    name, separator, load = text.rpartition(":")
    if not separator:
        raise argparse.ArgumentTypeError(f"write SIZES:LOAD, for example web-search:0.8, not {text!r}")
    try:
        return Traffic(load_cdf(name), load_share(load), name=name)
    except FieldError as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def _seconds(text: str) -> float:
    return number(text, lambda value: 1 <= value <= DAY_S, f"a number of seconds from 1 to {DAY_S}")
