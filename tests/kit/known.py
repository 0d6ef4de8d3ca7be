# SPDX-License-Identifier: Apache-2.0
"""Values that a test knows to exist, for the type checker."""

from typing import TypeVar

T = TypeVar("T")


def known(value: T | None) -> T:
    """Return the value. AssertionError: it is None."""
    assert value is not None
    return value
