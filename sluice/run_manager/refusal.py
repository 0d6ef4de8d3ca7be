# SPDX-License-Identifier: Apache-2.0
"""Refused requests, as documents for the web process."""

from __future__ import annotations

from typing import Any

from sluice.policy.errors import FieldError, SluiceError


class Refusal(SluiceError):
    """A request that is valid but impossible now. `code` is for programs."""

    def __init__(self, code: str, problem: str, **facts: Any) -> None:
        super().__init__(problem)
        self.code, self.problem, self.facts = code, problem, facts


def refused(error: SluiceError) -> dict[str, Any]:
    """Return the answer to a refused request."""
    if isinstance(error, Refusal):
        return _answer(409, error.code, error.problem) | error.facts
    if isinstance(error, FieldError):
        return _answer(422, "invalid-field", error.problem, error.field)
    return _answer(422, "refused", str(error))


def _answer(status: int, code: str, problem: str, field: str | None = None) -> dict[str, Any]:
    return {"error": {"status": status, "code": code, "problem": problem, "field": field}}
