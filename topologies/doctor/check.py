# SPDX-License-Identifier: Apache-2.0
"""One finding about this machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from policy.errors import SluiceError
from runtime.command import CommandFailed


class Check(NamedTuple):
    """One finding. `remedy` says what to do if it is not ok."""

    name: str
    ok: bool
    detail: str
    remedy: str


def tried(name: str, attempt: Callable[[], str], remedy: str) -> Check:
    """Return a check that is ok if the attempt raises no error that the user can remedy."""
    try:
        return Check(name, True, attempt(), remedy)
    except (SluiceError, CommandFailed, TimeoutError) as error:
        return Check(name, False, str(error), remedy)
