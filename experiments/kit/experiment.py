# SPDX-License-Identifier: Apache-2.0
"""The parts of an experiment: its line in the table, its axes, its runner, claims and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from matplotlib.figure import Figure

from experiments.kit.verdict import Claim
from sluice.policy.fabrics import SIMULATOR, TESTBED

Measured = TypeVar("Measured")
Measured_co = TypeVar("Measured_co", covariant=True)


@dataclass(frozen=True)
class Given:
    """The values of the command line. An axis that the experiment lacks is empty."""

    out: Path
    on: str = SIMULATOR
    """The fabric: one of sluice.runs.fabrics.FABRICS."""
    seeds: tuple[int, ...] = ()
    loads: tuple[float, ...] = ()
    flows: int = 0
    """Flows of a run; 0 means the scenario's number."""
    jobs: int | None = None
    """Runs at a time; None means one for each core."""
    quick: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)
    """Values of the experiment's and the runner's own options, by name."""

    def __getitem__(self, option: str) -> Any:
        return self.options[option]


@dataclass(frozen=True)
class Option:
    """An argument besides those that every experiment has."""

    flag: str
    keywords: Mapping[str, Any]
    """Keyword arguments of argparse's `add_argument`."""


def option(flag: str, **keywords: Any) -> Option:
    return Option(flag, keywords)


class Runner(Protocol[Measured_co]):
    """Makes the runs and reads them."""

    @property
    def options(self) -> Sequence[Option]:
        """Return the runner's options for the command line."""

    @property
    def quick(self) -> Mapping[str, Any]:
        """Return the defaults of its options under `--quick`."""

    def __call__(self, given: Given) -> Measured_co: ...


@dataclass(frozen=True)
class Script(Generic[Measured_co]):
    """A runner for a measurement that is not a list of runs."""

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
    """The paper and its figure; empty for one of our own checks."""
    minutes: float
    """Duration of the whole experiment on two idle cores."""
    about: str | None = None
    """The module's docstring, for `--help`."""
    runner: Runner[Measured]
    claims: Callable[[Measured], Sequence[Claim]]
    numbers: Callable[[Measured], object]
    """Further content of verdict.json, next to the claims; anything that JSON can hold."""
    draw: Callable[[Measured], Figure] | None = None
    """The plot, written to NAME.png."""
    table: Callable[[Measured], str] | None = None
    """A Markdown table, printed and written to table.md."""
    on: Sequence[str] = (SIMULATOR,)
    """The fabrics to choose from. The first one is the default."""
    out: Path | None = None
    """None means results/NAME."""
    seeds: Sequence[int] | int = ()
    """Default seeds. A number N means 1 to N, and `--seeds` then takes such a number."""
    loads: Sequence[float] = ()
    flows: int = 0
    options: Sequence[Option] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Option → its default under `--quick`, so that the verdict takes a few minutes."""

    @property
    def needs_root(self) -> bool:
        """Whether it runs on the testbed by default, which makes network namespaces."""
        return self.on[0] == TESTBED

    @property
    def default_out(self) -> Path:
        return self.out or Path("results") / self.name
