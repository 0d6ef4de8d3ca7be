# SPDX-License-Identifier: Apache-2.0
"""The parts of an experiment, and its result.

The parts are its line in the table, its axes, its runner, claims and figures. The result is the verdict: the claims
with the measured values, as JSON and as a table.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from rich.table import Table

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED
from sluice.terminal import console

if TYPE_CHECKING:  # benchmarks need no matplotlib
    from matplotlib.figure import Figure

VERDICT_FILE = "verdict.json"
QUICK_NOTE = "A quick run has too few flows and seeds to settle a claim: run it without --quick for that."


@dataclass(frozen=True)
class Claim:
    """One statement, its measured value, and whether it holds."""

    what: str
    paper: str
    measured: str
    holds: bool
    explanation: str = ""
    """Why it does not hold, if the reason is known."""


def conclude(out: Path, name: str, claims: Sequence[Claim], numbers: object, *, quick: bool = False) -> int:
    """Write verdict.json and print the table. The exit code is 1 if a claim fails without an explanation. A quick run
    cannot settle a claim, so its exit code is 0."""
    document = {
        "experiment": name,
        "quick": quick,
        "claims": [asdict(claim) for claim in claims],
        "numbers": numbers,
    }
    (out / VERDICT_FILE).write_text(json.dumps(document, indent=2) + "\n")
    table = Table(title=f"{name}, quick" if quick else name, title_justify="left")
    for heading in ("claim", "paper", "measured", "holds"):
        table.add_column(heading)
    for claim in claims:
        table.add_row(claim.what, claim.paper, claim.measured, "yes" if claim.holds else "[red]no[/]")
    explanations = [f"{c.what}: {c.explanation}" for c in claims if not c.holds and c.explanation]
    console.print(table, *explanations, sep="\n")
    console.print(*([QUICK_NOTE] if quick else []), f"results: {out}", sep="\n")
    return 0 if quick or all(claim.holds or claim.explanation for claim in claims) else 1


def read_verdict(folder: Path) -> dict[str, Any]:
    """Return the verdict of a finished experiment. SluiceError: the folder has none."""
    try:
        document: dict[str, Any] = json.loads((folder / VERDICT_FILE).read_text())
    except (FileNotFoundError, NotADirectoryError):
        raise SluiceError(
            f"{folder} has no {VERDICT_FILE}; give the --out folder of a finished experiment"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise SluiceError(
            f"{folder / VERDICT_FILE}: cannot be used: {error}; run the experiment again"
        ) from None
    if not isinstance(document, dict) or not {"experiment", "claims"} <= document.keys():
        raise SluiceError(f"{folder / VERDICT_FILE}: is no verdict; run the experiment again")
    return document


def markdown_table(headings: Iterable[str], rows: Iterable[Iterable[str]], rule: str = "---") -> str:
    """Return a Markdown table without the end of its last line. `rule`: what is below each heading."""
    head = list(headings)
    body = (f"| {' | '.join(cells)} |" for cells in (head, *rows))
    return "\n".join([next(body), f"|{f'{rule}|' * len(head)}", *body])


def claims_table(documents: Iterable[Mapping[str, Any]]) -> str:
    """Return one table with the claims of several verdicts."""
    return markdown_table(
        ("experiment", "claim", "paper", "measured", "holds"),
        (
            (
                f"{document['experiment']}{' (quick)' if document.get('quick') else ''}",
                *(claim[key] for key in ("what", "paper", "measured")),
                "yes" if claim["holds"] else "**no**",
            )
            for document in documents
            for claim in document["claims"]
        ),
    )


def spread(values: Sequence[float]) -> str:
    """Return median and range over seeds, for example 0.62 (0.58 … 0.66)."""
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.2f} ({ordered[0]:.2f} … {ordered[-1]:.2f})"


def over_loads(
    values: Mapping[float, float], shown: str = ".2f", *, factor: float = 1, unit: str = ""
) -> str:
    """Return values by load, for example 0.61, 0.58, 0.52 at loads 0.5, 0.6, 0.7."""
    texts = ", ".join(f"{factor * value:{shown}}" for value in values.values()).replace("-", "−")
    return (
        f"{texts}{unit} at load{'s' if len(values) > 1 else ''} {', '.join(f'{load:g}' for load in values)}"
    )


Measured = TypeVar("Measured")
Measured_co = TypeVar("Measured_co", covariant=True)


@dataclass(frozen=True)
class Given:
    """The values of the command line. An axis that the experiment lacks is empty."""

    out: Path
    on: str = SIMULATOR
    """The fabric: one of sluice.runs.files.FABRICS."""
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


class Option(NamedTuple):
    """An argument besides those that every experiment has."""

    flag: str
    keywords: Mapping[str, Any]
    """Keyword arguments of argparse's `add_argument`."""


def option(flag: str, help: str, **keywords: Any) -> Option:
    """Return an option. Its help says the default, if it has one."""
    shown = " (default: %(default)s)" if keywords.get("default") not in (None, []) else ""
    return Option(flag, {"help": help + shown, **keywords})


def some_of(flag: str, names: Iterable[Any], what: str, **keywords: Any) -> Option:
    """Return an option that takes some of these names, by default all of them."""
    every = list(names)
    return Option(
        flag, {"nargs": "+", "choices": every, "default": every, "help": f"{what} (default: all)", **keywords}
    )


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

    claim: str
    """What the paper says, or what the check proves, in one sentence."""
    figure: str = ""
    """The paper and its figure; empty for one of our own checks."""
    minutes: float
    """Duration of the whole experiment on two idle cores."""
    about: str | None = None
    """Text for `--help`; None: the module's docstring."""
    runner: Runner[Measured]
    claims: Callable[[Measured], Sequence[Claim]]
    numbers: Callable[[Measured], object] | None = None
    """Further content of verdict.json, next to the claims, as JSON can hold it. None: the figures of all runs."""
    draw: "Callable[[Measured], Figure] | None" = None
    """The plot, written to NAME.png."""
    table: Callable[[Measured], str] | None = None
    """A Markdown table, printed and written to table.md."""
    on: Sequence[str] = (SIMULATOR,)
    """The fabrics to choose from. The first one is the default."""
    seeds: Sequence[int] | int = ()
    """Default seeds. A number N means 1 to N, and `--seeds` then takes such a number."""
    loads: Sequence[float] = ()
    flows: int = 0
    options: Sequence[Option] = ()
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Option → its default under `--quick`, so that the verdict takes a few minutes."""
    name: str = ""
    """The key in `experiments/__main__.py`, which sets this field and the next one."""
    place: str = ""
    """The folder below experiments/ of all files about it, or its module there without the ending."""

    @property
    def needs_root(self) -> bool:
        """Whether it runs on the testbed by default, which makes network namespaces."""
        return self.on[0] == TESTBED

    @property
    def default_out(self) -> Path:
        return Path("results") / self.name
