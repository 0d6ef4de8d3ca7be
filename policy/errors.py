# SPDX-License-Identifier: Apache-2.0
"""The errors that a user can cause and correct.

    SluiceError                 base: the message says what to do
    ├── FieldError              a value in a document; the message names the field and what is allowed
    └── EnvironmentLacking      the machine lacks something; the message names the remedy

A bug is none of these: it raises one of Python's own errors and ends the process.

Text of others becomes one line before it is a part of a log, an event, or a message.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches

MAX_SHOWN_CHARACTERS = 80
"""An error message shows at most this much of a refused value."""


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


def unknown_key(where: str, key: str, allowed: Sequence[str]) -> FieldError:
    """The error for an unknown key. `where`: its full path; `allowed`: the keys that are allowed there."""
    return FieldError(where, f"is not a key here{guess(key, allowed)}; allowed keys: {', '.join(allowed)}")


def refuse_unknown(document: Iterable[object], allowed: Sequence[str], prefix: str = "") -> None:
    """Raise FieldError for the first key that is not allowed. `prefix`: the path of the document, up to a dot."""
    for key in document:
        if key not in allowed:
            raise unknown_key(f"{prefix}{key}", str(key), allowed)


def shortened(value: object) -> str:
    """The value in the quotes of TOML and JSON, cut to MAX_SHOWN_CHARACTERS."""
    text = f'"{value}"' if isinstance(value, str) else repr(value)
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 3]}..."


def guess(word: object, allowed: Collection[str]) -> str:
    """Return " (did you mean X?)" for a known word that is nearly this one; empty if there is none."""
    names = {name.lower(): name for name in allowed}
    near = get_close_matches(word.lower(), names, n=1) if isinstance(word, str) else []
    return f" (did you mean {names[near[0]]}?)" if near else ""


class EnvironmentLacking(SluiceError):
    """This machine lacks something. The message says what is missing and how to install it."""


LONGEST_LINE = 400
_NOT_SHOWN = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]+")
"""Control characters, line separators, and marks that reverse the direction of writing."""


def visible(text: str) -> str:
    """Return the text with a space for each run of characters that would control a terminal or end a line."""
    return _NOT_SHOWN.sub(" ", text)


def line_of(text: str) -> str:
    """Return the text as one line, cut to LONGEST_LINE characters."""
    line = visible(text)
    return line if len(line) <= LONGEST_LINE else f"{line[: LONGEST_LINE - 1]}…"
