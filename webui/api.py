# SPDX-License-Identifier: Apache-2.0
"""How endpoints say what they take and answer: models of documents, and blueprints under /api/v1.

A model is built when it is first used, and the OpenAPI document when it is first read. At the start of a web process
they would take half of the CPU time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.operation import Operation
from flask_openapi3.models.tag import Tag
from flask_openapi3.utils import get_responses
from pydantic import BaseModel, ConfigDict, Field, create_model

from sluice.policy.schema.kinds import Choice

PREFIX = "/api/v1"


class Model(BaseModel):
    model_config = ConfigDict(defer_build=True)


class ErrorDetail(Model):
    code: str
    problem: str
    field: str | None
    index: int | None


class Error(Model):
    """The one shape of all errors."""

    error: ErrorDetail


def model_of(cls: type, **replaced: Any) -> Any:
    """Return a pydantic model with the fields of a document, their types and their help.

    `replaced` gives types for fields that JSON shows in another form than the dataclass.
    """
    hints = {name: _shown(hint) for name, hint in get_type_hints(cls).items()} | replaced
    fields: dict[str, Any] = {
        field.name: (
            _words(hints[field.name], field.metadata.get("kind")),
            Field(description=field.metadata.get("help") or None),
        )
        for field in dataclasses.fields(cls)
    }
    model: type[Model] = create_model(cls.__name__, __base__=Model, **fields)
    return model


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


def _words(hint: Any, kind: object) -> Any:
    """Return the type of an entry of a document. That of a choice is its words."""
    if not isinstance(kind, Choice):
        return hint
    words: Any = Literal[kind.options]
    return words | None if type(None) in get_args(hint) else words


View = TypeVar("View", bound=Callable[..., Any])


class _Endpoint(NamedTuple):
    method: str
    rule: str
    view: Callable[..., Any]
    described: dict[str, Any]
    body: Callable[[], dict[str, Any]] | None


class Api(APIBlueprint):
    """Endpoints under /api/v1 whose errors have the API's one JSON shape.

    The methods take what flask-openapi3's take, and `body`: the function that returns the schema of a request's body.
    `messages`: the models of server-sent events, which no answer in JSON has.
    """

    def __init__(
        self, name: str, import_name: str, description: str, messages: Sequence[type[Model]] = ()
    ) -> None:
        super().__init__(name, import_name, url_prefix=PREFIX, doc_ui=False)
        self._tag = Tag(name=name, description=description)
        self._messages = messages
        self._endpoints: list[_Endpoint] = []

    def get(self, rule: str, **described: Any) -> Callable[[View], View]:
        return self._noted("get", rule, described)

    def post(self, rule: str, **described: Any) -> Callable[[View], View]:
        return self._noted("post", rule, described)

    def put(self, rule: str, **described: Any) -> Callable[[View], View]:
        return self._noted("put", rule, described)

    def delete(self, rule: str, **described: Any) -> Callable[[View], View]:
        return self._noted("delete", rule, described)

    def _noted(self, method: str, rule: str, described: dict[str, Any]) -> Callable[[View], View]:
        body = described.pop("body", None)
        route: Callable[[View], View] = getattr(super(), method)(rule)

        def add(view: View) -> View:
            self._endpoints.append(_Endpoint(method, rule, view, described, body))
            return route(view)

        return add

    def described(self) -> APIBlueprint:
        """Return a blueprint that describes these endpoints."""
        blueprint = APIBlueprint(
            self.name,
            self.import_name,
            url_prefix=PREFIX,
            abp_tags=[self._tag],
            abp_responses={422: Error, 503: Error},
        )
        for method, rule, view, described, body in self._endpoints:
            extensions = {"openapi_extensions": _request_body(body())} if body else {}
            getattr(blueprint, method)(rule, **described, **extensions)(view)
        for model in self._messages:
            get_responses({"200": model}, blueprint.components_schemas, Operation())
        return blueprint


def _request_body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
