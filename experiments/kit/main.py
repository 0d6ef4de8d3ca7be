# SPDX-License-Identifier: Apache-2.0
"""The command line of all experiments, the steps from it to the verdict, and the table in experiments/README.md."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

from experiments.kit.draw import save
from experiments.kit.experiment import Experiment, Given, conclude, markdown_table
from sluice.commands.arguments import at_least_one, folder, load_share, seed
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.runtime.command import CommandFailed
from sluice.terminal import end_in_order

README = Path(__file__).parents[1] / "README.md"

Catalogue = Mapping[str, Sequence[Experiment[Any]]]
"""Folder below experiments/, or module there without its ending → its experiments."""


def catalogue(modules: Mapping[str, str], experiments: Sequence[Experiment[Any]]) -> Catalogue:
    """Group the experiments by folder. `modules`: name of an experiment → its module below `experiments`."""
    folders = {e.name: place_of(modules[e.name]) for e in experiments}
    return {folder: list(group) for folder, group in groupby(experiments, key=lambda e: folders[e.name])}


def table(listed: Catalogue) -> str:
    """Return a Markdown table."""
    rows = []
    for place, experiments in listed.items():
        for e in experiments:
            needed = [option.flag.upper() for option in e.options if not option.flag.startswith("-")]
            arguments = f' ARGS="{" ".join(needed)}"' if needed else ""
            command = f"`make experiment NAME={e.name}{arguments}`"
            root = "yes" if e.needs_root else "no"
            rows.append(
                (f"[`{e.name}`]({page(place)})", e.claim, e.figure or "–", command, f"{e.minutes:g}", root)
            )
    return markdown_table(("experiment", "claim", "paper's figure", "command", "minutes", "root"), rows)


def place_of(module: str) -> str:
    """Return the second-level folder of a module below experiments/, or the path of the module without its ending."""
    return "/".join(module.partition(":")[0].split(".")[:2])


def page(place: str) -> str:
    """Return the path below experiments/ of the page about the experiments of a place."""
    beside = f"{place}.md"
    return beside if (README.parent / beside).exists() else f"{place}/README.md"


def listing(listed: Catalogue) -> Iterator[str]:
    """Yield the experiments of each folder with their claims, for a terminal."""
    for place, experiments in listed.items():
        yield f"\n{place}"
        for e in experiments:
            text = f"{e.claim} [{e.minutes:g} min{', root' if e.needs_root else ''}]"
            yield fill(text, 100, initial_indent=f"  {e.name:22}", subsequent_indent=" " * 24)


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
    command_line = parser(experiment)
    words = command_line.parse_args(argv)
    if words.quick:
        # A folder next to the whole experiment's, so that the results there stay.
        out = experiment.default_out.with_name(f"{experiment.default_out.name}-quick")
        command_line.set_defaults(out=out, **{**experiment.runner.quick, **experiment.quick})
        words = command_line.parse_args(argv)
    values = vars(words)
    seeds = values.get("seeds") or ()
    return Given(
        out=values["out"],
        on=values.get("on", experiment.on[0]),
        seeds=tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds),
        loads=tuple(values.get("loads") or ()),
        flows=values.get("flows", 0),
        jobs=values.get("jobs"),
        quick=values["quick"],
        options={name: value for name, value in values.items() if name not in FIELDS},
    )


def parser(experiment: Experiment[Any]) -> argparse.ArgumentParser:
    """Return a parser for the experiment's axes, its own options, and its runner's.

    Its description has the claim, its source and the cost, followed by the module's docstring.
    """
    source = f"{experiment.figure}. " if experiment.figure else ""
    root = ", root" if experiment.needs_root else ""
    cost = f"{source}About {experiment.minutes:g} min on two cores{root}."
    command_line = argparse.ArgumentParser(
        prog=f"python -m experiments {experiment.name}",
        description="\n\n".join(text for text in (experiment.claim, cost, experiment.about) if text),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command_line.add_argument(
        "--out",
        type=folder,
        default=experiment.default_out,
        help="folder for bundles, plot and verdict.json (default: %(default)s)",
    )
    command_line.add_argument(
        "--quick", action="store_true", help="few flows and seeds: a verdict within a few minutes"
    )
    _add_axes(command_line, experiment)
    for option in (*experiment.options, *experiment.runner.options):
        command_line.add_argument(option.flag, **option.keywords)
    return command_line


def _add_axes(command_line: argparse.ArgumentParser, experiment: Experiment[Any]) -> None:
    if len(experiment.on) > 1:
        root = " (needs root)" if experiment.on[0] == TESTBED else ""
        command_line.add_argument(
            "--on",
            choices=experiment.on,
            default=experiment.on[0],
            help=f"fabric to run on (default: %(default)s{root})",
        )
    if isinstance(experiment.seeds, int):
        command_line.add_argument(
            "--seeds",
            type=at_least_one,
            default=experiment.seeds,
            help="number of seeds, from 1 on (default: %(default)s)",
        )
    elif experiment.seeds:
        command_line.add_argument(
            "--seeds",
            type=seed,
            nargs="+",
            default=list(experiment.seeds),
            help="seeds; each is one run (default: %(default)s)",
        )
    if experiment.loads:
        command_line.add_argument(
            "--loads", type=load_share, nargs="+", default=list(experiment.loads), help="default: %(default)s"
        )
    if experiment.flows:
        command_line.add_argument(
            "--flows",
            type=at_least_one,
            default=experiment.flows,
            help="flows of each run (default: %(default)s)",
        )
