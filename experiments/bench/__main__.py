# SPDX-License-Identifier: Apache-2.0
"""The costs of data plane, control loop, store and simulator, beside their baselines: `make bench`.

`python -m experiments.bench` prints a table and writes bench.json: name → value, unit, baseline, ratio.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from experiments.bench import control, data_plane, ingest, simulator, transfers, units
from experiments.bench.measuring import Result
from sluice.commands.arguments import file
from sluice.policy.errors import SluiceError
from sluice.runs.files import need_root
from sluice.runtime.command import CommandFailed
from sluice.terminal import console, end_in_order

PARTS: Mapping[str, Callable[[], Iterator[Result]]] = {
    "packets": data_plane.packet_results,
    "throughput": transfers.throughput_results,
    "tagger": transfers.tagger_results,
    "controls": transfers.control_share_results,
    "link": data_plane.link_results,
    "forwarding": data_plane.forwarding_results,
    "acks": transfers.ack_results,
    "connections": data_plane.connection_results,
    "hook": data_plane.hook_results,
    "policy": control.policy_results,
    "control": control.control_results,
    "heartbeats": ingest.heartbeat_results,
    "durability": ingest.durability_results,
    "ingest": ingest.ingest_results,
    "simulator": simulator.simulator_results,
    "units": units.unit_results,
}
WITHOUT_ROOT = {"policy", "control", "heartbeats", "durability", "ingest", "simulator", "units"}


def main(words: Sequence[str]) -> int:
    """Measure all parts, or the named ones. Returns the exit code."""
    arguments = parser().parse_args(words)
    end_in_order()
    try:
        return run_benchmarks(arguments.out, arguments.only or list(PARTS))
    except (SluiceError, CommandFailed, TimeoutError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


def parser() -> argparse.ArgumentParser:
    command_line = argparse.ArgumentParser(prog="python -m experiments.bench", description=__doc__)
    command_line.add_argument(
        "--only", nargs="+", choices=PARTS, metavar="PART", help=f"parts to measure: {', '.join(PARTS)}"
    )
    command_line.add_argument(
        "--out",
        type=file,
        default=Path("results/bench.json"),
        help="file for the figures (default: %(default)s)",
    )
    return command_line


def run_benchmarks(out: Path, parts: Sequence[str]) -> int:
    """Measure the parts, print the table and write the file."""
    if not set(parts) <= WITHOUT_ROOT:
        need_root()
    results = []
    for name in parts:
        for result in PARTS[name]():
            results.append(result)
            console.print(f"{result.name}: {result.value:,.4g} {result.unit}", highlight=False)
    out.parent.mkdir(parents=True, exist_ok=True)
    document = {r.name: {**asdict(r), "ratio": r.ratio} for r in results}
    out.write_text(json.dumps(document, indent=2) + "\n")
    table = Table(title="make bench", title_justify="left")
    for heading in ("what", "value", "unit", "baseline", "ratio"):
        table.add_column(heading, justify="right" if heading in ("value", "ratio") else "left")
    for r in results:
        baseline = f"{r.baseline:,.4g} ({r.baseline_name})" if r.baseline is not None else "–"
        table.add_row(r.name, f"{r.value:,.4g}", r.unit, baseline, f"{r.ratio:.3f}" if r.ratio else "–")
    console.print(table)
    console.print(f"results: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
