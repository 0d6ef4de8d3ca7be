# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

from tests.unit.webui.conftest import Client


def test_page__has_the_policy_of_the_whole_application_and_loads_only_what_this_server_has(
    client: Client,
) -> None:
    answer, dashboard = client.get("/openapi/"), client.get("/")
    assert (answer.status_code, answer.mimetype) == (200, "text/html")
    name = "Content-Security-Policy"
    assert answer.headers[name] == dashboard.headers[name]
    assert "script-src" not in answer.headers[name], "scripts from elsewhere or inline"
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", answer.text))
    assert not re.search(r"\son\w+=", answer.text)
    parts = re.findall(r'(?:src|href|data-document)="([^"]+)"', answer.text)
    assert len(parts) >= 5
    for part in parts:
        assert part.startswith("/")
        assert client.get(part).status_code == 200, part
    document = next(part for part in parts if part.endswith(".json"))
    assert "/api/v1/policy" in client.get(document).json["paths"]
