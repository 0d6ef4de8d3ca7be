# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can cause, and nothing else.

    SluiceError                 anything a user can mend; the message says how
    ├── FieldError              a value in a document: names the field and what is allowed
    └── EnvironmentLacking      the machine lacks something; the message names the remedy

Bugs are not in this tree: they raise what Python raises and end the process.
"""

from __future__ import annotations


class SluiceError(Exception):
    """Base of every error whose message is written for the user."""


class FieldError(SluiceError):
    """A field of a scenario, policy or record has a value that is not allowed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class EnvironmentLacking(SluiceError):
    """This machine cannot do what was asked; the message says what is missing and how to get it."""
