# SPDX-License-Identifier: Apache-2.0

import json
import logging
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from sluice.runtime import logs


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Let the service of a host log some lines, with a root logger as in a new process."""

    def lines() -> None:
        monkeypatch.setattr(logging, "root", logging.RootLogger(logging.WARNING))
        logs.start(name="web1")
        try:
            raise ValueError("no such port")
        except ValueError:
            logging.root.warning("two\nlines of %s", "ö", exc_info=True)
        logging.root.info("also this")
        logging.root.debug("not this")

    return lines


def test_text__is_for_people(say: Callable[[], None], capsys: pytest.CaptureFixture[str]) -> None:
    say()
    assert " web1 WARNING root: two\nlines of ö\nTraceback" in capsys.readouterr().err


def test_json__a_line_is_a_record(
    say: Callable[[], None], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(logs.VARIABLE, "json")
    say()
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert first["exception"].endswith("ValueError: no such port")
    assert {key: first[key] for key in ("level", "logger", "message", "name")} == {
        "level": "warning",
        "logger": "root",
        "message": "two\nlines of ö",
        "name": "web1",
    }
    assert (second["message"], second["level"], "exception" in second) == ("also this", "info", False)
    assert second["time"].endswith("Z")


def fields(message: bytes) -> dict[str, str]:
    found = {}
    while message:
        key, _, rest = message.partition(b"\n")
        (length,) = struct.unpack_from("<Q", rest)
        found[key.decode()] = rest[8 : 8 + length].decode()
        message = rest[8 + length + 1 :]
    return found


def test_journal__gets_fields(
    say: Callable[[], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    there = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{there.st_dev}:{there.st_ino}")
    monkeypatch.setattr(logs, "_JOURNAL", tmp_path / "journal")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
        journal.bind(str(tmp_path / "journal"))
        journal.settimeout(60)
        say()
        first, second = fields(journal.recv(1 << 16)), fields(journal.recv(1 << 16))
    assert first["MESSAGE"].startswith("two\nlines of ö\nTraceback")
    assert (first["PRIORITY"], first["LOGGER"], first["SLUICE_NAME"]) == ("4", "root", "web1")
    assert (second["MESSAGE"], second["PRIORITY"], second["CODE_FILE"]) == ("also this", "6", __file__)
    logging.root.error("the journal has ended")
    assert capfd.readouterr().err == "the journal has ended\n"
