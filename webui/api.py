# SPDX-License-Identifier: Apache-2.0
"""How endpoints say what they take, answer and refuse: models, blueprints under /api/v1, errors, bodies of requests.

A model is built when it is first used, and the OpenAPI document when it is first read. At the start of a web process
they would take half of the CPU time.
"""

import dataclasses
import json
import logging
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, reduce
from operator import or_
from types import UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from flask import Blueprint, Response, jsonify, make_response, request
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.schema import Schema
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from sluice.policy.errors import FieldError, SluiceError, guess, shortened
from sluice.policy.network.graph import Topology
from sluice.policy.schema import entries
from sluice.policy.schema.entries import schema
from sluice.policy.schema.kinds import Choice
from sluice.store.failures import failure_of

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


_nested = cache(model_of)
"""Models of dataclasses within others. Each dataclass has one."""


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


# ── Endpoints ────────────────────────────────────────────────────────────────────────────────────────────────────────


View = TypeVar("View", bound=Callable[..., Any])
Body: TypeAlias = type | Callable[[], dict[str, Any]]
"""The class of a request's document, or a function that returns its schema."""

_OF_TOKENS, _OF_BODIES = (401, 403), (400, 413, 415)
"""The statuses of the errors that every endpoint with a token or with a body has."""


class _Endpoint(NamedTuple):
    method: str
    rule: str
    view: Callable[..., Any]
    described: dict[str, Any]
    body: Body | None


class Api(APIBlueprint):
    """Endpoints under /api/v1 whose errors have the API's one JSON shape.

    The methods take `answers`, the model of the answer or models by status, whether a `token` is needed, the `body`,
    and the statuses of the `errors` besides those that a token and a body have.
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
        return self._noted("get", rule, **described)

    def post(self, rule: str, **described: Any) -> Callable[[View], View]:
        return self._noted("post", rule, **described)

    def put(self, rule: str, **described: Any) -> Callable[[View], View]:
        return self._noted("put", rule, **described)

    def delete(self, rule: str, **described: Any) -> Callable[[View], View]:
        return self._noted("delete", rule, **described)

    def _noted(
        self,
        method: str,
        rule: str,
        *,
        answers: Any,
        errors: Sequence[int] = (),
        token: bool = False,
        body: Body | None = None,
        **described: Any,
    ) -> Callable[[View], View]:
        statuses = {*errors, *(_OF_TOKENS if token else ()), *(_OF_BODIES if body else ())}
        answers = answers if isinstance(answers, dict) else {200: answers}
        described["responses"] = dict(sorted((answers | dict.fromkeys(statuses, Error)).items()))
        if token:
            described["security"] = [{"bearer": []}]
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
            if body is not None:
                document = schema(body) if dataclasses.is_dataclass(body) else body()
                content = {"application/json": {"schema": document}}
                described = described | {
                    "openapi_extensions": {"requestBody": {"required": True, "content": content}}
                }
            getattr(blueprint, method)(rule, **described)(view)
        return blueprint

    def message_schemas(self) -> dict[str, Any]:
        """Return the schemas of the messages and of their parts by name, as an OpenAPI document has them."""
        schemas: dict[str, Any] = {}
        for model in self._messages:
            schema = model.model_json_schema(
                mode="serialization", ref_template="#/components/schemas/{model}"
            )
            parts = schema.pop("$defs", {})
            schemas |= {model.__name__: schema, **parts}
        return {
            name: Schema(**schema).model_dump(mode="json", by_alias=True, exclude_unset=True)
            for name, schema in schemas.items()
        }


# ── Errors ───────────────────────────────────────────────────────────────────────────────────────────────────────────


log = logging.getLogger(__name__)

errors = Blueprint("errors", __name__)
"""What a request gets for an exception, anywhere in the application."""

MAX_PROBLEM_CHARACTERS = 400
BUSY = frozenset({429, 503})
RETRY_AFTER_S = 5
"""When a caller may try again after one of these."""


class ApiError(Exception):
    """A request that cannot be answered. It becomes the JSON error."""

    def __init__(
        self, status: int, code: str, problem: str, field: str | None = None, index: int | None = None
    ):
        super().__init__(problem)
        self.status, self.code, self.problem, self.field, self.index = status, code, problem, field, index


@errors.app_errorhandler(ApiError)
def api_error(error: ApiError) -> Response:
    problem = error.problem
    if len(problem) > MAX_PROBLEM_CHARACTERS:
        problem = problem[: MAX_PROBLEM_CHARACTERS - 1] + "…"
    document = {"code": error.code, "problem": problem, "field": error.field, "index": error.index}
    response = make_response(jsonify(error=document), error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="sluice"'
    if error.status in BUSY:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def query_error(error: ValidationError) -> Response:
    """Return the response for a path or query parameter that pydantic refuses."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"]) or None
    return api_error(ApiError(422, "invalid-field", first["msg"], field))


@errors.app_errorhandler(FieldError)
def field_error(error: FieldError) -> Response:
    return api_error(ApiError(422, "invalid-field", error.problem, error.field))


@errors.app_errorhandler(SluiceError)
def sluice_error(error: SluiceError) -> Response:
    return api_error(ApiError(422, "refused", str(error)))


@errors.app_errorhandler(SQLAlchemyError)
def store_error(error: SQLAlchemyError) -> Response:
    log.error("the store failed: %s", error)
    failure = failure_of(error)
    return api_error(ApiError(503, failure.code, failure.problem))


@errors.app_errorhandler(RequestEntityTooLarge)
def too_large(_error: RequestEntityTooLarge) -> Response:
    return api_error(ApiError(413, "too-large", "the body is larger than this endpoint allows"))


@errors.app_errorhandler(HTTPException)
def http_error(error: HTTPException) -> Response:
    if error.response is not None and isinstance(error.response, Response):
        return error.response
    code = error.name.lower().replace(" ", "-")
    response = api_error(ApiError(error.code or 500, code, error.description or error.name))
    for name, value in error.get_headers():
        if name.lower() not in ("content-type", "content-length"):
            response.headers[name] = value
    return response


@errors.app_errorhandler(Exception)
def bug(error: Exception) -> Response:
    """Answer a defect of the server. The log gets the traceback; the client gets no details."""
    log.exception("a request failed: %s %s", request.method, request.path, exc_info=error)
    return api_error(ApiError(500, "internal", "an internal error; the server's log has the details"))


# ── What requests may hold ───────────────────────────────────────────────────────────────────────────────────────────
#
# The size of a JSON body is limited before it is read, and its syntax is stricter than Python's parser. The policy
# package itself checks the documents, with the code that checks scenarios. JSON schemas describe to clients what it
# accepts. Rules that JSON Schema cannot express (thresholds must increase) are in the descriptions.


MAX_BODY_BYTES = 1_000_000
MAX_FLOWS_BODY_BYTES = 8_000_000
MAX_DEPTH = 16

_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def read_json(limit_bytes: int = MAX_BODY_BYTES, max_depth: int | None = MAX_DEPTH) -> Any:
    """Return the request's JSON body.

    Raises ApiError 415 for another content type, ApiError 400 for malformed JSON, and werkzeug's
    413 if the body is longer than `limit_bytes`. `max_depth` None sets no limit to nesting; the
    caller then accepts flat documents only.
    """
    value = parse_json(_read_body(limit_bytes))
    if max_depth is not None and _deeper_than(value, max_depth):
        raise ApiError(400, "malformed-json", f"the body is nested more than {max_depth} levels deep")
    return value


def _read_body(limit_bytes: int) -> bytes:
    """Return the request's body if it may be JSON. Raises ApiError 415 and werkzeug's 413 as `read_json` does."""
    if request.mimetype != "application/json":
        raise ApiError(415, "unsupported-media-type", "send the body as application/json")
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise ApiError(415, "unsupported-media-type", "send the body without a content encoding")
    # Werkzeug cuts a streamed body at the limit and reports nothing. A limit of one byte more
    # shows that it was too long.
    request.max_content_length = limit_bytes + 1
    raw = request.get_data(cache=False)
    if len(raw) > limit_bytes:
        raise RequestEntityTooLarge()
    return raw


def parse_json(raw: bytes) -> Any:
    """Return JSON text as a value.

    ApiError 400 unless it is UTF-8 with finite numbers, no lone surrogates, and no key twice in an object.
    """
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text, object_pairs_hook=_object, parse_constant=_refuse_constant, parse_float=_finite
        )
        if _SURROGATE_ESCAPE.search(text):
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeError:
        raise ApiError(400, "malformed-json", "the body is not Unicode text in UTF-8") from None
    except RecursionError:
        raise ApiError(400, "malformed-json", "the body is nested too deeply") from None
    except ValueError as error:
        raise ApiError(400, "malformed-json", f"the body is not JSON: {error}") from None
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object. A key that comes twice is refused: another reader of the body may take the other value."""
    entry_of = dict(pairs)
    if len(entry_of) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"an object has the key {shortened(twice)} twice")
    return entry_of


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float | int:
    """Return a number. 3.0 counts as a whole number, as in JSON Schema."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number exceeds the range of a double")
    return int(value) if value.is_integer() else value


def _deeper_than(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        inner = (node for node in level if isinstance(node, dict | list))
        level = [child for node in inner for child in (node.values() if isinstance(node, dict) else node)]
        if not level:
            return False
    return True


EPOCH_MAX_S = 1e11
Since = Annotated[float, Field(ge=0, le=EPOCH_MAX_S, allow_inf_nan=False)]
PortId = Annotated[str, Field(pattern=f"^{entries.PORT.pattern}$")]


class AgentPath(Model):
    name: str = Field(pattern=f"^{entries.AGENT.pattern}$")


class PortPath(Model):
    port: PortId


def check_port(topology: Topology | None, port_id: str) -> None:
    """Raise ApiError 404 unless the network has this port."""
    ports = topology.port_by_id if topology else {}
    if port_id not in ports:
        why = (
            f"the network has no port {port_id}{guess(port_id, ports)}"
            if ports
            else "there is no network yet"
        )
        raise ApiError(404, "no-such-port", why, "port")
