# SPDX-License-Identifier: Apache-2.0
"""What the commands that break code on purpose share: the names of mutants, their verdicts and the score."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import Phase, settings

LIMIT_S = 120
"""CPU time of the tests of one mutant. A mutant that never ends is killed by it."""


@dataclass(frozen=True)
class Place:
    """One place of a file, and how a mutant changes it."""

    file: str
    line: int
    what: str
    """For example "< -> <="."""
    code: str
    """The line, without its indentation."""
    number: int
    """Of the places of this file with the same change in the same code, from 1."""

    @property
    def key(self) -> str:
        """A name that no other mutant has. It holds no line number, which every edit above would change."""
        return f"{self.file}: {self._change}"

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self._change}"

    @property
    def _change(self) -> str:
        return f"{self.what} in `{self.code}`" + (f" ({self.number})" if self.number > 1 else "")


@dataclass
class Numbers:
    """Counts the places of a file with the same change in the same code."""

    _seen: Counter[tuple[str, str]] = field(default_factory=Counter)

    def next(self, what: str, code: str) -> int:
        self._seen[what, code] += 1
        return self._seen[what, code]


OnePlace = TypeVar("OnePlace", bound=Place)


def parser(description: str | None, files: str) -> argparse.ArgumentParser:
    """Return a parser of the arguments that both commands have. `files` says which names the first one takes."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("files", nargs="*", help=files)
    made.add_argument("--share", type=float, default=1.0, help="of all mutants, chosen at random")
    made.add_argument("--seed", type=int, default=1)
    made.add_argument("--only", default="", metavar="TEXT", help="mutants whose printed line contains this")
    return made


def chosen(every: Sequence[OnePlace], given: argparse.Namespace) -> list[OnePlace]:
    """Return the mutants that the arguments of `parser` choose, in the order of their places."""
    picked = random.Random(given.seed).sample(every, round(given.share * len(every)))
    return sorted(
        (one for one in picked if given.only in str(one)), key=lambda one: (one.file, one.line, one.number)
    )


def report(verdicts: Mapping[OnePlace, str], accepted: Mapping[str, str]) -> int:
    """Print the survivors and the score. Returns 1 if a survivor is not accepted, otherwise 0.

    A verdict is "killed", "survived" or "equal": the mutant changes no code.
    """
    count = Counter(verdicts.values())
    survivors = [one for one, verdict in verdicts.items() if verdict == "survived"]
    for one in survivors:
        print(f"survived: {one}  {accepted.get(one.key, 'NOT ACCEPTED')}")
    total = count["killed"] + count["survived"]
    new = sum(one.key not in accepted for one in survivors)
    print(
        f"{count['killed']} of {total} mutants killed ({100 * count['killed'] / max(1, total):.1f} %), "
        f"{count['survived'] - new} accepted survivors, {new} others; {count['equal']} change no code"
    )
    return int(new > 0)


def fails_in_a_child(files: Sequence[Path], install: Callable[[], None], limit_s: float = LIMIT_S) -> bool:
    """Return whether these tests fail in a new process after `install`, or use more than the CPU time."""
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, limit_s)
        status = 1
        with contextlib.suppress(BaseException):
            install()
            status = int(
                pytest.main(["-x", "-q", "-p", "no:cacheprovider", *map(str, files)], [NoShrinking()])
            )
        os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def judged(one: Place, verdict: str) -> str:
    """Print a verdict as soon as it is known, and return it."""
    print(f"{verdict:9} {one}", file=sys.stderr, flush=True)
    return verdict


class NoShrinking:
    """A pytest plugin: a failing example need not become simpler."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        settings.register_profile(
            "mutants", phases=[Phase.explicit, Phase.generate], database=None, deadline=None
        )
        settings.load_profile("mutants")
