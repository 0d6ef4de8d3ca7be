# SPDX-License-Identifier: Apache-2.0


import stat
from pathlib import Path

import pytest

from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.token_file import default_token_path, find_token


@pytest.fixture(autouse=True)
def own_state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("SLUICE_TOKEN", raising=False)


def test_find_token__the_file_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    monkeypatch.setenv("SLUICE_TOKEN", "from-environment")
    assert find_token(tmp_path / "token")[0] == "from-file"
    assert find_token(None)[0] == "from-environment"


def test_find_token__generated_once_by_the_web_process_for_its_owner_alone() -> None:
    """A command that made one would use it ever after."""
    with pytest.raises(EnvironmentLacking, match=r"there is no token at .*: give the web process's own"):
        find_token(None)
    token, source = find_token(None, make=True)
    assert len(token) >= 24
    assert source == str(default_token_path())
    assert stat.S_IMODE(default_token_path().stat().st_mode) == 0o600
    assert find_token(None)[0] == token


def test_default_token_path__of_the_installed_service_unless_there_is_an_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    installed = tmp_path / "token"
    installed.write_text("of-the-service\n")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sluice.runtime.token_file.INSTALLED_TOKEN", installed)
    assert find_token(None)[0] == "of-the-service"
    own = tmp_path / ".local/state/sluice/token"
    own.parent.mkdir(parents=True)
    own.write_text("own\n")
    assert find_token(None)[0] == "own"


@pytest.mark.parametrize("content", [None, "", " \n"])
def test_find_token__a_file_without_a_token_is_an_error_with_its_remedy(
    tmp_path: Path, content: str | None
) -> None:
    if content is not None:
        (tmp_path / "token").write_text(content)
    with pytest.raises(EnvironmentLacking, match="write a token into it"):
        find_token(tmp_path / "token")
