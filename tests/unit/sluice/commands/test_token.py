# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from sluice import cli
from sluice.store.tokens import find_token

Command = Callable[..., int]


@pytest.fixture
def command(url: str, tmp_path: Path) -> Command:
    """`sluice token` with the owner's token."""
    (tmp_path / "token").write_text("token")
    remote = ["--url", url, "--token-file", str(tmp_path / "token")]
    return lambda *words: cli.main(["token", *remote, *words])


def test_created_once_listed_and_revoked(
    command: Command, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("create", "--role", "read", "--expires", "30d", "--name", "wall") == 0
    token = capsys.readouterr().out.strip()
    found = find_token(engine, token)
    assert found is not None
    assert found.role == "read"
    assert found.expires_at - found.created_at == pytest.approx(30 * 86_400, abs=60)
    assert command("list") == 0
    listed = capsys.readouterr().out
    assert "wall" in listed
    assert "in 30.0 days" in listed
    assert token not in listed
    assert command("revoke", "wall") == 0
    assert find_token(engine, token) is None
    assert command("revoke", "wall") == 2
    assert "no token named wall is in force" in capsys.readouterr().err


@pytest.mark.parametrize("expires", ["forever", "400d", "0s", "soon", "1.5.2d"])
def test_a_token_must_end(command: Command, expires: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command("create", "--role", "read", "--expires", expires, "--name", "wall")
    assert "--expires" in capsys.readouterr().err


def test_a_token_of_another_role_is_told_what_it_needs(
    command: Command, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command("create", "--role", "change", "--expires", "1h", "--name", "alice")
    (tmp_path / "alice").write_text(capsys.readouterr().out)
    own = ["token", "--url", url, "--token-file", str(tmp_path / "alice")]
    assert cli.main([*own, "revoke", "alice"]) == 2
    assert "this token has the role change" in capsys.readouterr().err
