# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can cause and correct.

    SluiceError                 base: the message says what to do
    ├── FieldError              a value in a document; the message names the field and what is allowed
    └── EnvironmentLacking      the machine lacks something; the message names the remedy

A bug is none of these: it raises one of Python's own errors and ends the process.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches


class SluiceError(Exception):
    """Base of every error whose message is written for the user."""


class FieldError(SluiceError):
    """A field of a scenario, policy or record has a value that is not allowed.

    `field` is its path as the user wrote it ("workload.load"). `problem` says what is wrong and what is allowed.
    """

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def unknown_key(where: str, key: str, known: Sequence[str]) -> FieldError:
    """The error for an unknown key. `where`: its full path; `known`: the keys that are allowed there."""
    near = get_close_matches(key, known, n=1)
    guess = f"did you mean {near[0]}? " if near else ""
    return FieldError(where, f"is not a key here; {guess}Allowed keys: {', '.join(known)}")


class EnvironmentLacking(SluiceError):
    """This machine lacks something. The message says what is missing and how to install it."""
