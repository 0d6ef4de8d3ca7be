# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice.webui.options import WebOptions
from sluice.webui.service import _server_settings


def test_what_a_log_or_a_traceback_shows_has_no_secret() -> None:
    settings = _server_settings(WebOptions(), "postgresql+psycopg://sluice:hidden1@/sluice", "hidden2")
    assert "127.0.0.1:8080" in repr(settings)
    assert "hidden" not in repr(settings)
