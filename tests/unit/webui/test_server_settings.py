# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from webui.server import ServerSettings


def test_what_a_log_or_a_traceback_shows_has_no_secret() -> None:
    settings = ServerSettings("postgresql+psycopg://sluice:hidden1@/sluice", "hidden2", ["127.0.0.1:8080"])
    assert "127.0.0.1:8080" in repr(settings)
    assert "hidden" not in repr(settings)
