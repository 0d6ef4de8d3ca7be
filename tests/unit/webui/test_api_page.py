# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

from tests.unit.webui.conftest import Client


def parts_of(client: Client) -> list[str]:
    """Return the addresses that the page loads."""
    page = client.get("/openapi/").text
    return re.findall(r'(?:src|href|data-document)="([^"]+)"', page)


def test_page__answers_with_the_policy_of_the_whole_application(client: Client) -> None:
    answer, dashboard = client.get("/openapi/"), client.get("/")
    assert answer.status_code == 200
    assert answer.mimetype == "text/html"
    name = "Content-Security-Policy"
    assert answer.headers[name] == dashboard.headers[name]
    assert "script-src" not in answer.headers[name], "scripts from elsewhere or inline"


def test_page__loads_only_what_this_server_has(client: Client) -> None:
    parts = parts_of(client)
    assert len(parts) >= 5
    for part in parts:
        assert part.startswith("/")
        assert client.get(part).status_code == 200, part


def test_page__has_no_inline_script(client: Client) -> None:
    page = client.get("/openapi/").text
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))
    assert not re.search(r"\son\w+=", page)


def test_page__shows_the_document_of_the_api(client: Client) -> None:
    document = next(part for part in parts_of(client) if part.endswith(".json"))
    assert "/api/v1/policy" in client.get(document).json["paths"]
