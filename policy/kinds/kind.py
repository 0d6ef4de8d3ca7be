# SPDX-License-Identifier: Apache-2.0
"""The base of all kinds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from sluice.policy.errors import FieldError, shortened

Schema = dict[str, Any]
"""A JSON schema."""


@dataclass(frozen=True)
class Kind:
    """The rule for one value of a document."""

    name: ClassVar[str]
    """Shown in the reference and in the dashboard's form."""
    is_table: ClassVar[bool] = False
    """The value has keys of its own. In a list of tables, an error names the index of the table."""

    def read(self, where: str, value: object) -> Any:
        """Return the value as the program uses it. Raises FieldError that names `where` and what is allowed."""
        raise NotImplementedError

    @property
    def allowed(self) -> str:
        """What is allowed, in words that can follow "must be"."""
        raise NotImplementedError

    @property
    def unit(self) -> str:
        """Unit of the value as the program uses it; empty if it has none."""
        return ""

    def schema(self) -> Schema:
        """JSON schema of the values that `read` accepts."""
        raise NotImplementedError

    def show(self, value: Any) -> str:
        """A value as a user writes it in a document."""
        return f'"{value}"' if isinstance(value, str) else str(value)

    def refuse(self, where: str, value: object) -> FieldError:
        """The error for a value that is not allowed."""
        return FieldError(where, f"must be {self.allowed}, not {shortened(value)}")
