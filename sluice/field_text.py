# SPDX-License-Identifier: Apache-2.0
"""Values of a policy's fields as text, with their units."""

from __future__ import annotations

from typing import Any

from sluice.policy.schema.field_kinds import Draft
from sluice.policy.schema.fields import POLICY_FIELDS, Override
from sluice.policy.schemes import scheme_named

NONE = "–"


def field_text(scheme: str, name: str, value: Any) -> str:
    """Return a value of a policy's document. `value` is as in JSON."""
    if value is None or value == []:
        return NONE
    field = next(field for field in POLICY_FIELDS if field.name == name)
    if name == "overrides":
        value = [Override.of_document(one) for one in value]
    return field.kind_of(Draft(scheme_named(scheme))).show(value)
