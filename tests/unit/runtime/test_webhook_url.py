# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.policy.errors import FieldError
from sluice.runtime.settings.webhook_url import WebhookUrl


@pytest.mark.parametrize(
    "url",
    ["https://hooks.example/T0/secret?key=x", "http://127.0.0.1:9000/x", "http://[::1]:80", "http://h_1/x"],
)
def test_webhook_url(url: str) -> None:
    assert WebhookUrl().read("webhook", url) == url
    assert "secret" not in WebhookUrl().show(url)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://secret/x",
        "file:///secret",
        "https:///secret",
        "https://user:secret@h/x",
        "https://h:port/secret",
        "https://h:0/secret",
        "https://h/secret#x",
        "https://h/secret x",
        "https://h/secret\r\nHost: other",
        "hooks.example/secret",
        7,
        None,
    ],
)
def test_webhook_url__anything_else_is_refused_without_showing_it(url: object) -> None:
    with pytest.raises(FieldError, match="webhook: must be http://HOST:PORT/PATH") as error:
        WebhookUrl().read("webhook", url)
    assert "secret" not in str(error.value)
