# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from sluice.policy.errors import FieldError
from sluice.runtime.http_client import Answer, HttpClient, ServerAway


@pytest.mark.parametrize("target", ["", "unix:relative", "https://x", "ftp://x:1", "http://"])
def test_targets_that_are_none(target: str) -> None:
    with pytest.raises(FieldError, match="--web"):
        HttpClient(target)


def test_no_server_listens(tmp_path: Path) -> None:
    with pytest.raises(ServerAway):
        HttpClient(f"unix:{tmp_path}/web.sock").post("/x", b"{}")


def test_answer__is_not_json() -> None:
    with pytest.raises(ServerAway, match="not JSON"):
        Answer(200, b"<html>").json()
