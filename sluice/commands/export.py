# SPDX-License-Identifier: Apache-2.0
"""`sluice export`: the policy as the configuration of other switches."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from policy.desired import Policy
from policy.errors import FieldError, SluiceError
from policy.tags import EDGES_BYTES
from policy.traffic_classes import ClassPlan, best_of_plan, class_plan, lost
from policy.units import format_bytes
from policy.workload import Workload
from sluice.commands.arguments import SCENARIO_HELP, command_parser, file
from sluice.export.gnmi import GnmiTarget, apply
from sluice.export.sonic import SonicPort, adapted_tables, check_interface, config_tables, differences
from sluice.export.traffic import Traffic, reported_traffic
from sluice.remote import Remote, add_remote
from sluice.runs.files import load_cdf, scenario_from_file

_EPILOG = """examples:
  sluice export sonic my.toml --interfaces Ethernet0,Ethernet4 --out qos.json
  sluice export sonic my.toml --interfaces Ethernet0 --traffic web-search:0.8 --traffic data-mining:0.5
  sluice export sonic --running --interfaces s1:1=Ethernet0,s1:2=Ethernet4 --only-maps

The configuration goes to the standard output or to --out, everything else to the standard error. On the switch,
`sudo config load qos.json` adds it. docs/how-to/sonic.md says what was never tried on hardware.
"""
DEFAULT_LOAD = 0.8


def parser() -> argparse.ArgumentParser:
    made = command_parser("export", _EPILOG)
    actions = made.add_subparsers(dest="target", required=True, metavar="TARGET")
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
        help="names of the switch's ports, separated by commas; with --running PORT=NAME, as s1:1=Ethernet0",
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
        "--load", type=_load, default=DEFAULT_LOAD, help="load of reported flows (default: 0.8)"
    )
    sonic.add_argument(
        "--only-maps",
        action="store_true",
        help="only TC_TO_QUEUE_MAP, the table that changes with thresholds",
    )
    sonic.add_argument("--out", type=file, metavar="FILE", help="where the configuration goes")
    _add_gnmi(sonic)
    return made


def _add_gnmi(parser: argparse.ArgumentParser) -> None:
    gnmi = parser.add_argument_group("gNMI", "write the tables into the switch instead")
    gnmi.add_argument("--gnmi", type=_address, metavar="HOST:PORT", help="the switch's gNMI server")
    gnmi.add_argument("--tls-ca", type=Path, metavar="FILE", help="authority of the switch's certificate")
    gnmi.add_argument("--tls-cert", type=Path, metavar="FILE", help="our certificate, with --tls-key")
    gnmi.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    gnmi.add_argument("--plaintext", action="store_true", help="without TLS, on a network that you trust")


def execute(arguments: argparse.Namespace) -> int:
    if arguments.running == (arguments.scenario is not None):
        raise SluiceError("give either a scenario or --running")
    target = _target(arguments)
    policy, traffic, installed = _running(arguments) if arguments.running else _scenario(arguments)
    traffic = arguments.traffic or traffic
    if not traffic and policy.definition.threshold_rule.adapts:
        raise SluiceError("the scenario names no distribution with a load: add --traffic web-search:0.8")
    models = [one.model(policy) for one in traffic]
    plan = class_plan(policy, models)
    start = best_of_plan(plan, models[0]) if policy.definition.threshold_rule.adapts else policy.thresholds
    ports = [
        SonicPort(interface, plan.snapped(installed[port]) if port in installed else plan.snapped(start))
        for port, interface in arguments.interfaces.items()
    ]
    tables = (adapted_tables if arguments.only_maps else config_tables)(plan, ports)
    if target:
        print(f"{target.address} has taken {apply(tables, target)} rows", file=sys.stderr)
    if arguments.out or not target:
        _write(json.dumps(tables, indent=2) + "\n", arguments.out)
    _explain(plan, traffic, [] if not policy.definition.threshold_rule.adapts else lost(plan, models))
    return 0


def _scenario(arguments: argparse.Namespace) -> tuple[Policy, list[Traffic], Mapping[str, Sequence[int]]]:
    scenario, _ = scenario_from_file(arguments.scenario)
    workload = scenario.workload
    if not isinstance(workload, Workload) or workload.load is None:
        return scenario.policy, [], {}
    own = Traffic("the scenario's workload", workload.sizes, workload.load, workload.scale)
    return scenario.policy, [own], {}


def _running(arguments: argparse.Namespace) -> tuple[Policy, list[Traffic], Mapping[str, Sequence[int]]]:
    remote = Remote(arguments.url, None)
    current: dict[str, Any] | None = remote.get("policy?limit=1")["current"]
    if current is None:
        raise SluiceError("there is no policy yet: put one in force with `sluice policy set FILE`")
    policy = Policy.from_document(current["policy"])
    now: dict[str, Any] = remote.get("thresholds")["now"]
    missing = [port for port in arguments.interfaces if port not in now]
    if missing:
        known = ", ".join(sorted(now)) or "none"
        raise SluiceError(f"--interfaces: the network has no port {missing[0]}; it has {known}")
    adapts = policy.definition.threshold_rule.adapts and not arguments.traffic
    traffic = [reported_traffic(remote, arguments.load)] if adapts else []
    return policy, traffic, {port: row["thresholds_bytes"] for port, row in now.items()}


def _target(arguments: argparse.Namespace) -> GnmiTarget | None:
    if arguments.gnmi is None:
        return None
    if arguments.plaintext == (arguments.tls_ca is not None):
        raise SluiceError("--gnmi needs either --tls-ca or --plaintext")
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise SluiceError("give --tls-cert and --tls-key together")
    return GnmiTarget(arguments.gnmi, arguments.tls_ca, arguments.tls_cert, arguments.tls_key)


def _write(text: str, out: Path | None) -> None:
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text)


def _explain(plan: ClassPlan, traffic: Sequence[Traffic], losses: Sequence[float]) -> None:
    """Say on the standard error what the classes are, what is lost by them, and what the switch does otherwise."""
    console = Console(stderr=True, highlight=False)
    edges = [format_bytes(edge) for edge in plan.edges_bytes if edge < EDGES_BYTES[-1]]
    console.print(f"{plan.classes} traffic classes; edges of bytes sent: {', '.join(edges) or 'none'}")
    if losses:
        table = Table("traffic", "load", "mean slowdown against 40 edges")
        for one, loss in zip(traffic, losses, strict=True):
            table.add_row(one.name, f"{one.load:g}", f"+{100 * max(loss, 0):.1f} %")
        console.print(table)
    for sentence in differences(plan):
        console.print(f"- {sentence}")


def _interfaces(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        port, separator, name = part.strip().partition("=")
        name = name if separator else port
        try:
            check_interface(name)
        except SluiceError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if port in found or name in found.values():
            raise argparse.ArgumentTypeError(f"{part.strip()} is there twice")
        found[port] = name
    return found


def _traffic(text: str) -> Traffic:
    name, separator, load = text.rpartition(":")
    if not separator:
        raise argparse.ArgumentTypeError(f"write SIZES:LOAD, for example web-search:0.8, not {text!r}")
    try:
        return Traffic(name, load_cdf(name), _load(load))
    except FieldError as error:
        raise argparse.ArgumentTypeError(error.problem) from None


def _address(text: str) -> str:
    host, separator, port = text.rpartition(":")
    if not (separator and host and port.isdecimal() and 0 < int(port) < 65536):
        raise argparse.ArgumentTypeError(f"write HOST:PORT, for example 192.0.2.7:8080, not {text!r}")
    return text


def _load(text: str) -> float:
    try:
        load = float(text)
    except ValueError:
        load = math.nan
    if not 0 < load < 1:
        raise argparse.ArgumentTypeError(f"a load is between 0 and 1, not {text!r}")
    return load
