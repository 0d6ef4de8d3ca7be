# SPDX-License-Identifier: Apache-2.0
"""The page /openapi/: Swagger UI for the OpenAPI document.

The package flask-openapi3-swagger brings Swagger UI's files. Its own page starts with an inline
script, which the application's Content-Security-Policy forbids. So the page here starts Swagger UI
from a file.
"""

from __future__ import annotations

from pathlib import Path

import flask_openapi3_swagger
from flask import Blueprint, render_template

_SWAGGER_UI = Path(flask_openapi3_swagger.__file__).parent / "templates" / "swagger"

api_page = Blueprint(
    "api_page", __name__, url_prefix="/openapi", static_folder=_SWAGGER_UI, static_url_path="/swagger-ui"
)


@api_page.get("/")
def reference() -> str:
    return render_template("openapi.html")
