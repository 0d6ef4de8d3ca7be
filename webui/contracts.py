# SPDX-License-Identifier: Apache-2.0
"""API models of the documents that `policy` defines. They are made from the entries, so each field
is declared once."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, Field, create_model


def model_of(cls: type, **replaced: Any) -> Any:
    """Return a pydantic model with the fields of a document, their types and their help.

    `replaced` gives types for fields that JSON shows in another form than the dataclass.
    """
    hints = {name: _shown(hint) for name, hint in get_type_hints(cls).items()} | replaced
    fields: dict[str, Any] = {
        field.name: (hints[field.name], Field(description=field.metadata.get("help") or None))
        for field in dataclasses.fields(cls)
    }
    made: type[BaseModel] = create_model(cls.__name__, **fields)
    return made


@cache
def _nested(cls: Any) -> Any:
    return model_of(cls)


def _shown(hint: Any) -> Any:
    """Return the type of a value in JSON: models for dataclasses, lists for tuples, objects for mappings."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return reduce(or_, map(_shown, parts))
    if origin is tuple:
        return list[_shown(parts[0])]  # type: ignore[misc]
    if origin is Mapping:
        return dict[str, _shown(parts[1])]  # type: ignore[misc]
    return _nested(hint) if dataclasses.is_dataclass(hint) else hint  # type: ignore[arg-type]
