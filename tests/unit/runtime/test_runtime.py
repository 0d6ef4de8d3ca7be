# SPDX-License-Identifier: Apache-2.0
"""Waiting, commands, TOML files, names of files, and HTTP."""

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sluice.policy.errors import FieldError
from sluice.runtime.command import CommandFailed, run
from sluice.runtime.http_client import Answer, HttpClient, ServerAway
from sluice.runtime.toml import NotToml, can_name_a_file, exists, is_file, parse_toml, read_toml
from sluice.runtime.wait import wait_until
from tests.unit.hostagent.fake_web import FakeWeb


def test_run__raises_with_the_commands_output() -> None:
    with pytest.raises(CommandFailed, match="no-such-file") as caught:
        run(["cat", "/no-such-file"])
    assert caught.value.returncode == 1
    assert "$ cat /no-such-file" in str(caught.value)


def test_wait_until__names_the_condition() -> None:
    with pytest.raises(TimeoutError, match="the moon rises"):
        wait_until(lambda: False, "the moon rises", timeout_s=0.05)


DEEP, LONG = "a = " + "[" * 5000, "a = " + "9" * 5000


@pytest.mark.parametrize(
    ("text", "problem"), [("a", "Expected '='"), (DEEP, "nested too deeply"), (LONG, "5000 digits")]
)
def test_parse__anything_else_is_no_toml(text: str, problem: str) -> None:
    with pytest.raises(NotToml, match=problem):
        parse_toml(text)


def test_read__bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b'a = "\xff"')
    with pytest.raises(NotToml, match="utf-8"):
        read_toml(tmp_path / "file")


def test_read__a_byte_order_mark_is_no_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"\xef\xbb\xbfa = 1")
    assert read_toml(tmp_path / "file") == {"a": 1}


# ── What can name a file, compared with what the kernel takes ──────────────────────────────────


@pytest.mark.parametrize("text", ["a", "a" * 255, "ä" * 127, "b/" * 2047 + "b", "/" + "c" * 200, ".."])
def test_a_name_that_the_kernel_takes(text: str) -> None:
    assert can_name_a_file(text)
    assert not is_file(Path("/nowhere") / text)


@pytest.mark.parametrize("text", ["a" * 256, "ä" * 128, "b/" * 2048 + "b", f"/tmp/{'c' * 256}/d"])
def test_a_name_that_is_too_long(text: str) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENAMETOOLONG)):
        Path(text).lstat()
    assert not can_name_a_file(text)
    assert not is_file(Path(text))
    assert not exists(Path(text))


# ── Requests over TCP and over a Unix socket ─────────────────────────────────────────────────────


@pytest.mark.parametrize("target", ["", "unix:relative", "https://x", "ftp://x:1", "http://"])
def test_targets_that_are_none(target: str) -> None:
    with pytest.raises(FieldError, match="--web"):
        HttpClient(target)


def test_answer__is_not_json() -> None:
    with pytest.raises(ServerAway, match="not JSON"):
        Answer(200, b"<html>").json()


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWeb]:
    """A web process in a folder whose name is too long for a socket, so it binds the relative name."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    monkeypatch.chdir(folder)
    with FakeWeb(Path("web.sock")) as server:
        yield server


def post(folder: Path, path: str = "/api/v1/agents/port-agent") -> Answer:
    with closing(HttpClient(f"unix:{folder}/web.sock", 2)) as client:
        return client.post(path, b'{"kind": "port"}')


def test_post__the_body_is_sent_and_the_answer_returned(web: FakeWeb) -> None:
    web.settings = {"policy_version": 7}
    assert post(Path.cwd()).json() == {"policy_version": 7}
    assert web.heartbeats == [{"kind": "port"}]


@pytest.mark.parametrize("folder", [".", "missing"])
def test_post__no_server_listens(tmp_path: Path, folder: str) -> None:
    with pytest.raises(ServerAway):
        post(tmp_path / folder)


def test_post__a_server_that_cannot_serve_is_away(web: FakeWeb) -> None:
    web.flow_status = 503
    with pytest.raises(ServerAway, match="503"):
        post(Path.cwd(), "/api/v1/flows")
