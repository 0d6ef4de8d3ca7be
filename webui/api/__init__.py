# SPDX-License-Identifier: Apache-2.0
"""The REST API, one blueprint for each subject."""

from __future__ import annotations

from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag

from sluice.webui.error_models import Error

PREFIX = "/api/v1"


def blueprint(name: str, import_name: str, description: str) -> APIBlueprint:
    """Return a blueprint under /api/v1 whose errors have the API's one JSON shape."""
    return APIBlueprint(
        name,
        import_name,
        url_prefix=PREFIX,
        abp_tags=[Tag(name=name, description=description)],
        abp_responses={422: Error, 503: Error},
    )
