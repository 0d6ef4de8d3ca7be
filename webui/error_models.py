# SPDX-License-Identifier: Apache-2.0
"""The one shape of the API's errors."""

from __future__ import annotations

from pydantic import BaseModel


class ErrorDetail(BaseModel):
    code: str
    problem: str
    field: str | None
    index: int | None


class Error(BaseModel):
    """The one shape of all errors."""

    error: ErrorDetail
