# SPDX-License-Identifier: Apache-2.0
"""Every error of the API in one JSON shape: {"error": {"code", "problem", "field", "index"}}, with
its status code."""

from __future__ import annotations

import logging

from flask import Flask, Response, jsonify, make_response, request
from pydantic import ValidationError
from sqlalchemy.exc import SQLAlchemyError
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from sluice.policy.errors import FieldError, SluiceError
from sluice.store.failures import failure_of

log = logging.getLogger(__name__)

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


def error_response(
    status: int, code: str, problem: str, field: str | None = None, index: int | None = None
) -> Response:
    if len(problem) > MAX_PROBLEM_CHARACTERS:
        problem = problem[: MAX_PROBLEM_CHARACTERS - 1] + "…"
    error = {"code": code, "problem": problem, "field": field, "index": index}
    response = make_response(jsonify(error=error), status)
    if status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="sluice"'
    if status in BUSY:
        response.headers["Retry-After"] = str(RETRY_AFTER_S)
    return response


def query_error(error: ValidationError) -> Response:
    """Return the response for a path or query parameter that pydantic refuses."""
    first = error.errors()[0]
    return error_response(
        422, "invalid-field", first["msg"], field=".".join(str(part) for part in first["loc"]) or None
    )


def register_errors(app: Flask) -> None:
    app.register_error_handler(ApiError, _api_error)
    app.register_error_handler(FieldError, _field_error)
    app.register_error_handler(SluiceError, _sluice_error)
    app.register_error_handler(SQLAlchemyError, _store_error)
    app.register_error_handler(RequestEntityTooLarge, _too_large)
    app.register_error_handler(HTTPException, _http_error)
    app.register_error_handler(Exception, _bug)


def _api_error(error: ApiError) -> Response:
    return error_response(error.status, error.code, error.problem, error.field, error.index)


def _field_error(error: FieldError) -> Response:
    return error_response(422, "invalid-field", error.problem, error.field)


def _sluice_error(error: SluiceError) -> Response:
    return error_response(422, "refused", str(error))


def _store_error(error: SQLAlchemyError) -> Response:
    log.error("the store failed: %s", error)
    failure = failure_of(error)
    return error_response(503, failure.code, failure.problem)


def _too_large(_error: RequestEntityTooLarge) -> Response:
    return error_response(413, "too-large", "the body is larger than this endpoint allows")


def _http_error(error: HTTPException) -> Response:
    if error.response is not None and isinstance(error.response, Response):
        return error.response
    code = error.name.lower().replace(" ", "-")
    response = error_response(error.code or 500, code, error.description or error.name)
    for name, value in error.get_headers():
        if name.lower() not in ("content-type", "content-length"):
            response.headers[name] = value
    return response


def _bug(error: Exception) -> Response:
    """Answer a defect of the server. The log gets the traceback; the client gets no details."""
    log.exception("a request failed: %s %s", request.method, request.path, exc_info=error)
    return error_response(500, "internal", "an internal error; the server's log has the details")
