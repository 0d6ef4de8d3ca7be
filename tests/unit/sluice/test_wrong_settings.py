# SPDX-License-Identifier: Apache-2.0
"""Every setting of every service gets every wrong value, in its file, its variable and its flag.

An error names the setting as it was written there. No other exception, and no value that the published schema forbids.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sluice.cli import COMMANDS, SERVICES, main, service
from sluice.policy.errors import SluiceError
from sluice.policy.schema.entries import Entry, entries, entry_schema
from sluice.runtime.settings import Service
from sluice.runtime.settings.service import flag_of

TEXTS = ("", " ", "-1", "1.5", "nan", "1e400", "9" * 40, "a b", "http://", "x:99999", "é" * 3000, "5s,x")
NUMBERS = (0, -1, 2**63, 10**400, 0.5, math.nan, math.inf, True)
VALUES: tuple[object, ...] = (*TEXTS, *NUMBERS, [], {}, [[]], {"x": 1}, ["x", -1], ["a:1"] * 999)


def settings() -> Iterator[Any]:
    for name in SERVICES:
        for one in entries(service(name).table):
            yield pytest.param(name, one, id=f"{name}.{one.key}")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def refused(of: Service[Any], document: object, flags: dict[str, Any], environ: dict[str, str]) -> str:
    """Return why the settings are refused; empty if they are not."""
    path = Path("file.toml")
    path.write_text("")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sluice.runtime.settings.service.read_toml", lambda path: document)
        try:
            of.load(path, flags, environ)
        except SluiceError as error:
            return str(error)
    return ""


def fits(one: Entry, value: object) -> bool:
    return bool(jsonschema.Draft202012Validator(entry_schema(one)).is_valid(value))


@pytest.mark.parametrize(("name", "one"), list(settings()))
def test_every_wrong_value_is_refused_where_it_was_written(name: str, one: Entry) -> None:
    of = service(name)
    variable = f"{of.prefix}{one.key.upper()}"
    for value in VALUES:
        said = refused(of, {one.key: value}, {}, {})
        assert said or fits(one, value), f"{one.key} = {value!r:.60} was accepted"
        assert not said or fits(one, value) or one.key in said, f"{one.key} = {value!r:.60}: {said}"
        assert len(said) < 2000
    for text in TEXTS:
        for said, where in (
            (refused(of, {}, {}, {variable: text}), variable),
            (refused(of, {}, {one.key: text}, {}), flag_of(one)),
        ):
            assert not said or where in said or one.key in said, f"{where}={text!r:.60}: {said}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: sluice {name}" in capsys.readouterr().out
