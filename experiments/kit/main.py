# SPDX-License-Identifier: Apache-2.0
"""The command line of all experiments, and the steps from it to the verdict."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.kit.draw import save
from experiments.kit.experiment import Experiment, Given
from experiments.kit.verdict import conclude
from sluice.commands.arguments import at_least_one, folder, load_share, seed
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.runtime.command import CommandFailed
from sluice.terminal import end_in_order

FIELDS = ("out", "on", "seeds", "loads", "flows", "jobs", "quick")
"""Arguments that are fields of Given. All others are its options."""


def main(experiment: Experiment[Any], argv: Sequence[str]) -> int:
    """Run an experiment. Exit code 1: a claim fails without an explanation; 2: the experiment could not run."""
    given = read_command(experiment, argv)
    end_in_order()
    try:
        return run(experiment, given)
    except (CommandFailed, SluiceError, TimeoutError) as error:
        print(f"{experiment.name}: {error}", file=sys.stderr)
        return 2


def run(experiment: Experiment[Any], given: Given) -> int:
    """Make the runs, the plot, the table and the verdict. Returns the verdict's exit code."""
    given.out.mkdir(parents=True, exist_ok=True)
    measured = experiment.runner(given)
    if experiment.draw:
        save(experiment.draw(measured), given.out / f"{experiment.name}.png")
    if experiment.table:
        table = experiment.table(measured)
        (given.out / "table.md").write_text(table)
        print(table)
    claims, numbers = experiment.claims(measured), experiment.numbers(measured)
    return conclude(given.out, experiment.name, claims, numbers, quick=given.quick)


def read_command(experiment: Experiment[Any], argv: Sequence[str]) -> Given:
    """Return the values of the command line. SystemExit: for --help, or for an unknown argument."""
    made = parser(experiment)
    words = made.parse_args(argv)
    if words.quick:
        quick = {**experiment.runner.quick, **experiment.quick}
        made.set_defaults(out=_quick_out(experiment), **quick)
        words = made.parse_args(argv)
    values = vars(words)
    return Given(
        out=values["out"],
        on=values.get("on", experiment.on[0]),
        seeds=_seeds(values.get("seeds") or ()),
        loads=tuple(values.get("loads") or ()),
        flows=values.get("flows", 0),
        jobs=values.get("jobs"),
        quick=values["quick"],
        options={name: value for name, value in values.items() if name not in FIELDS},
    )


def _quick_out(experiment: Experiment[Any]) -> Path:
    """Return a folder next to the whole experiment's, so that its results stay."""
    return experiment.default_out.with_name(f"{experiment.default_out.name}-quick")


def _seeds(given: Sequence[int] | int) -> tuple[int, ...]:
    return tuple(range(1, given + 1)) if isinstance(given, int) else tuple(given)


def parser(experiment: Experiment[Any]) -> argparse.ArgumentParser:
    """Return a parser for the experiment's axes, its own options, and its runner's."""
    made = argparse.ArgumentParser(
        prog=f"python -m experiments {experiment.name}",
        description=_description(experiment),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument(
        "--out",
        type=folder,
        default=experiment.default_out,
        help="folder for bundles, plot and verdict.json (default: %(default)s)",
    )
    made.add_argument(
        "--quick", action="store_true", help="few flows and seeds: a verdict within a few minutes"
    )
    _add_axes(made, experiment)
    for option in (*experiment.options, *experiment.runner.options):
        made.add_argument(option.flag, **option.keywords)
    return made


def _description(experiment: Experiment[Any]) -> str:
    """Return the claim, its source and the cost, followed by the module's docstring."""
    where = f"{experiment.figure}. " if experiment.figure else ""
    root = ", root" if experiment.needs_root else ""
    cost = f"{where}About {experiment.minutes:g} min on two cores{root}."
    return "\n\n".join(text for text in (experiment.claim, cost, experiment.about) if text)


def _add_axes(made: argparse.ArgumentParser, experiment: Experiment[Any]) -> None:
    if len(experiment.on) > 1:
        root = " (needs root)" if experiment.on[0] == TESTBED else ""
        made.add_argument(
            "--on",
            choices=experiment.on,
            default=experiment.on[0],
            help=f"fabric to run on (default: %(default)s{root})",
        )
    if isinstance(experiment.seeds, int):
        made.add_argument(
            "--seeds",
            type=at_least_one,
            default=experiment.seeds,
            help="number of seeds, from 1 on (default: %(default)s)",
        )
    elif experiment.seeds:
        made.add_argument(
            "--seeds",
            type=seed,
            nargs="+",
            default=list(experiment.seeds),
            help="seeds; each is one run (default: %(default)s)",
        )
    if experiment.loads:
        made.add_argument(
            "--loads", type=load_share, nargs="+", default=list(experiment.loads), help="default: %(default)s"
        )
    if experiment.flows:
        made.add_argument(
            "--flows",
            type=at_least_one,
            default=experiment.flows,
            help="flows of each run (default: %(default)s)",
        )
