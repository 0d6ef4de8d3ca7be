# SPDX-License-Identifier: Apache-2.0
"""The command line of all experiments, the steps from it to the verdict, and the table in experiments/README.md."""

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import fill
from typing import Any

from experiments.kit.draw import save
from experiments.kit.experiment import Experiment, Given, Option, conclude, markdown_table, option
from experiments.kit.runs import numbers_of
from sluice.commands.arguments import at_least_one, folder, load_share, seed
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.runtime.command import CommandFailed
from sluice.terminal import end_in_order

README = Path(__file__).parents[1] / "README.md"


def table(experiments: Iterable[Experiment[Any]]) -> str:
    """Return a Markdown table."""
    rows = []
    for e in experiments:
        needed = [option.flag.upper() for option in e.options if not option.flag.startswith("-")]
        arguments = f' ARGS="{" ".join(needed)}"' if needed else ""
        command = f"`make experiment NAME={e.name}{arguments}`"
        root = "yes" if e.needs_root else "no"
        rows.append((f"[`{e.name}`]({page(e)})", e.claim, e.figure or "–", command, f"{e.minutes:g}", root))
    return markdown_table(("experiment", "claim", "paper's figure", "command", "minutes", "root"), rows)


def page(experiment: Experiment[Any]) -> str:
    """Return the path below experiments/ of the page about an experiment."""
    beside = f"{experiment.place}.md"
    return beside if (README.parent / beside).exists() else f"{experiment.place}/README.md"


def listing(experiments: Iterable[Experiment[Any]]) -> Iterator[str]:
    """Yield the experiments of each folder with their claims, for a terminal."""
    for place, group in groupby(experiments, key=lambda e: e.place):
        yield f"\n{place}"
        for e in group:
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
    claims, numbers = experiment.claims(measured), (experiment.numbers or numbers_of)(measured)
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
    for flag, keywords in (*_axes(experiment), *experiment.options, *experiment.runner.options):
        command_line.add_argument(flag, **keywords)
    return command_line


def _axes(e: Experiment[Any]) -> Iterator[Option]:
    """Yield the options that several experiments have."""
    yield option("--out", "folder for bundles, plot and verdict.json", type=folder, default=e.default_out)
    yield option("--quick", "few flows and seeds: a verdict within a few minutes", action="store_true")
    if len(e.on) > 1:
        yield option("--on", f"fabric to run on; {TESTBED} needs root", choices=e.on, default=e.on[0])
    if isinstance(e.seeds, int):
        yield option("--seeds", "number of seeds, from 1 on", type=at_least_one, default=e.seeds)
    elif e.seeds:
        yield option("--seeds", "seeds; each is one run", type=seed, nargs="+", default=list(e.seeds))
    if e.loads:
        yield option("--loads", "loads of the links", type=load_share, nargs="+", default=list(e.loads))
    if e.flows:
        yield option("--flows", "flows of each run", type=at_least_one, default=e.flows)
