# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can cause, and nothing else.

    SluiceError                 anything a user can mend; the message says how
    ├── FieldError              a value in a document: names the field and what is allowed
    └── EnvironmentLacking      the machine lacks something; the message names the remedy

Bugs are not in this tree: they raise what Python raises and end the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


class SluiceError(Exception):
    """Base of every error whose message is written for the user."""


class FieldError(SluiceError):
    """A field of a scenario, policy or record has a value that is not allowed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def unknown_key(where: str, key: str, known: Sequence[str]) -> FieldError:
    """The error of a key that a document cannot have. `where` is the key's full path."""
    near = get_close_matches(key, known, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    return FieldError(where, f"is not a key here; {guess}Allowed are {', '.join(known)}")


class EnvironmentLacking(SluiceError):
    """This machine cannot do what was asked; the message says what is missing and how to get it."""
