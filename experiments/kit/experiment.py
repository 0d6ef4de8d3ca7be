# SPDX-License-Identifier: Apache-2.0
"""What an experiment is: its line in the table, its axes, its runner, claims and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from matplotlib.figure import Figure

from experiments.kit.verdict import Claim
from policy.fabrics import SIMULATOR, TESTBED

Measured = TypeVar("Measured")
Measured_co = TypeVar("Measured_co", covariant=True)


@dataclass(frozen=True)
class Given:
    """What a command line asks for. An axis that the experiment does not have is empty."""

    out: Path
    on: str = SIMULATOR
    """Where it runs: one of sluice.runs.fabrics.FABRICS."""
    seeds: tuple[int, ...] = ()
    loads: tuple[float, ...] = ()
    flows: int = 0
    """Per run; 0: as many as the scenario says."""
    jobs: int | None = None
    """Runs at a time; None: one a core."""
    quick: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """Values of the experiment's and the runner's own options, by name."""

    def __getitem__(self, option: str) -> Any:
        return self.options[option]


@dataclass(frozen=True)
class Option:
    """An argument beyond those that every experiment has."""

    flag: str
    keywords: Mapping[str, Any]
    """As argparse's `add_argument` takes them."""


def option(flag: str, **keywords: Any) -> Option:
    return Option(flag, keywords)


class Runner(Protocol[Measured_co]):
    """Makes the runs and reads them."""

    @property
    def options(self) -> Sequence[Option]:
        """What the runner adds to the command line."""

    @property
    def quick(self) -> Mapping[str, Any]:
        """Defaults of its options under `--quick`."""

    def __call__(self, given: Given) -> Measured_co: ...


@dataclass(frozen=True)
class Script(Generic[Measured_co]):
    """A runner for a measurement that is more than a list of runs."""

    measure: Callable[[Given], Measured_co]
    options: Sequence[Option] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, given: Given) -> Measured_co:
        return self.measure(given)


@dataclass(frozen=True, kw_only=True)
class Experiment(Generic[Measured]):
    """One figure of a paper, or one check. `experiments/README.md` has a line for each."""

    name: str
    claim: str
    """What the paper says, or what the check proves, in one sentence."""
    figure: str
    """Where the paper says it; empty for a check of our own."""
    minutes: float
    """The whole experiment on two idle cores."""
    about: str | None = None
    """The module's docstring, for `--help`."""
    runner: Runner[Measured]
    claims: Callable[[Measured], Sequence[Claim]]
    numbers: Callable[[Measured], object]
    """What verdict.json holds beside the claims; anything that JSON can hold."""
    draw: Callable[[Measured], Figure] | None = None
    """The plot, written to NAME.png."""
    table: Callable[[Measured], str] | None = None
    """A Markdown table, printed and written to table.md."""
    on: Sequence[str] = (SIMULATOR,)
    """Fabrics to choose from; the first one is the default."""
    out: Path | None = None
    """Default: results/NAME."""
    seeds: Sequence[int] | int = ()
    """Default seeds. A number N stands for 1 to N, and `--seeds` then takes such a number."""
    loads: Sequence[float] = ()
    flows: int = 0
    options: Sequence[Option] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Defaults under `--quick`, by name of the option, so that the verdict takes a few minutes."""

    @property
    def needs_root(self) -> bool:
        """By default it runs on the testbed, which makes network namespaces."""
        return self.on[0] == TESTBED

    @property
    def default_out(self) -> Path:
        return self.out or Path("results") / self.name
