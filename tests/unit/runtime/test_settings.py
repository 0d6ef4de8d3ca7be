# SPDX-License-Identifier: Apache-2.0
"""Settings of a service: layers, priorities, messages, --check."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sluice.policy.errors import FieldError, SluiceError
from sluice.policy.schema.entries import entry
from sluice.policy.schema.kinds import Flag, Kind, ListOf, Number, Whole
from sluice.runtime.settings import Service, kinds


@dataclass(frozen=True)
class Options:
    count: int = entry(Whole(1, 9), "A number.", default=1)
    ratio: float = entry(Number(0, 1), "A ratio.", default=0.5)
    listen: tuple[str, ...] = entry(ListOf(kinds.Address(), longest=3), "Addresses.", default=())
    fast: bool = entry(Flag(), "A flag.", default=True)
    secret: Path | None = entry(kinds.SecretFile(credential="secret"), "A secret.", default=None)
    run_dir: Path | None = entry(kinds.Folder(), "A folder.", default=None)


ran: list[Options] = []


def remember(options: Options) -> int:
    ran.append(options)
    return 7


SERVICE = Service("some-thing", "Does something.", Options, remember, "  sluice some-thing --count 2\n")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "some-thing.toml"
    path.write_text("")
    return path


def loaded(file: Path, environ: dict[str, str] | None = None, **flags: Any) -> Options:
    return SERVICE.load(file, flags, environ or {})[0]


def test_a_service_without_its_file_has_defaults() -> None:
    assert not SERVICE.file.exists()
    assert SERVICE.load(None, {}, {}) == (Options(), {})


def test_the_file_comes_before_the_default_then_the_variable_then_the_flag(file: Path) -> None:
    file.write_text("count = 2\nratio = 0.25\nfast = false\nlisten = ['a:1']\n")
    assert loaded(file) == Options(2, 0.25, ("a:1",), False)
    environ = {"SLUICE_SOME_THING_COUNT": "3", "SLUICE_SOME_THING_LISTEN": "b:1, c:2"}
    assert loaded(file, environ) == Options(3, 0.25, ("b:1", "c:2"), False)
    assert loaded(file, environ, count="4", listen=["d:3"], fast=True) == Options(4, 0.25, ("d:3",), True)


def test_files_of_the_folder_beside_it_come_after_the_file_by_name(file: Path) -> None:
    file.write_text("count = 2\nratio = 0.25\n")
    folder = file.with_name("some-thing.toml.d")
    folder.mkdir()
    (folder / "20-site.toml").write_text("count = 4\n")
    (folder / "10-defaults.toml").write_text("count = 3\nfast = false\n")
    (folder / "30-saved.toml~").write_text("count = 9\n")
    assert loaded(file) == Options(4, 0.25, fast=False)
    (folder / "20-site.toml").write_text("cuont = 4\n")
    with pytest.raises(SluiceError, match=r"20-site.toml: cuont: .*count"):
        loaded(file)


def test_a_secret_comes_from_systemd_unless_a_setting_names_a_file(file: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert loaded(file, environ).secret == tmp_path / "secret"
    file.write_text('secret = "/elsewhere"')
    assert loaded(file, environ).secret == Path("/elsewhere")


def refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    ran.clear()
    assert SERVICE.main(argv) == 2
    assert not ran
    return capsys.readouterr().err.splitlines()


def test_everything_that_is_wrong_is_said_at_once(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('coun = 3\nratio = "much"\n')
    monkeypatch.setenv("SLUICE_SOME_THING_FAST", "perhaps")
    monkeypatch.setenv("SLUICE_SOME_THING_LISTN", "a:1")
    lines = refusal(capsys, "--config", str(file), "--count", "10")
    keys = "count, ratio, listen, fast, secret, run_dir"
    assert (
        lines[0]
        == f"sluice some-thing: {file}: coun: is not a key here (did you mean count?); allowed keys: {keys}"
    )
    assert "SLUICE_SOME_THING_LISTN: is not a key here (did you mean SLUICE_SOME_THING_LISTEN?)" in lines[1]
    assert lines[2:] == [
        "sluice some-thing: --count: must be a whole number from 1 to 9, not 10",
        f'sluice some-thing: {file}: ratio: must be a number from 0 to 1, not "much"',
        'sluice some-thing: SLUICE_SOME_THING_FAST: must be true or false, not "perhaps"',
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot read the configuration file: No such file"), ("count 3", "is no TOML")],
)
def test_a_file_that_cannot_be_read(
    file: Path, capsys: pytest.CaptureFixture[str], content: str | None, message: str
) -> None:
    file.unlink() if content is None else file.write_text(content)
    (line,) = refusal(capsys, "--config", str(file))
    assert line.startswith(f"sluice some-thing: {file}: {message}")


def test_check__shows_where_each_setting_comes_from_and_starts_nothing(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran.clear()
    file.write_text("count = 2\n")
    assert SERVICE.main(["--config", str(file), "--check", "--no-fast"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert f"count = 2  ({file}: count)" in shown
    assert "fast = false  (--no-fast)" in shown or "fast = false  (--fast)" in shown
    assert "ratio = 0.5  (default)" in shown
    assert shown[-1] == "sluice some-thing: the settings are in order"
    assert not ran


def test_check__looks_at_the_files(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text('secret = "/nowhere/secret"\nrun_dir = "/dev/null/run"\n')
    assert refusal(capsys, "--config", str(file), "--check") == [
        f"sluice some-thing: {file}: secret: /nowhere/secret does not exist; create the file or name another one",
        f"sluice some-thing: {file}: run_dir: /dev/null is no folder; name another path",
    ]


# ── Kinds ──────────────────────────────────────────────────────────────────────────────────────


STORES = ("sqlite:////var/lib/x.db", "sqlite://", "postgresql+psycopg://u@h/d", "postgresql://u:p@h:5432/d")


@pytest.mark.parametrize(
    ("kind", "right", "wrong", "allowed"),
    [
        (
            kinds.Address(),
            ("127.0.0.1:80", "[::1]:0", "web.example:8080", "localhost:65535"),
            ("", "x", "x:", ":1", "256.0.0.1:1", "x:65536", "[::g]:1", "a b:1", "unix:/x", 1),
            "must be HOST:PORT, not",
        ),
        (kinds.Address(unix=True), ("unix:/run/x.sock",), ("unix:",), "HOST:PORT or unix:PATH"),
        (
            kinds.WebAddress(),
            ("unix:/run/web.sock", "http://web:8080", "http://[::1]:80"),
            ("unix:web.sock", "http://", "ftp://web", "web:8080", "http://web:port", None),
            "must be unix:/PATH",
        ),
        (
            kinds.StoreUrl(),
            STORES,
            ("nosuch://x/y", "what", "sqlite:/x.db", "mysql://u:secret@h/d"),
            "must be sqlite:////path",
        ),
        (
            kinds.Age(),
            (),
            ("", "5", "-1s", "1e3s", "1w", "nan s", "9999999999999s", 5),
            "must be a time such as",
        ),
        (kinds.CountOrForEver(), (5, math.inf), (0, "5", 1.5, True), "must be a whole number"),
    ],
)
def test_a_kind_reads_what_it_allows_and_says_so_of_all_else(
    kind: Kind, right: tuple[object, ...], wrong: tuple[object, ...], allowed: str
) -> None:
    for value in right:
        assert kind.read("x", "forever" if value == math.inf else value) == value
    for value in wrong:
        with pytest.raises(FieldError, match=allowed) as error:
            kind.read("x", value)
        assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "url",
    ["postgresql://u:secret@h/d", "postgresql://u@h/d?password=secret", "postgresql://u:a@secret@h/d"],
)
def test_a_password_is_never_shown_and_never_a_flag(url: str) -> None:
    assert "secret" not in kinds.StoreUrl().show(url)
    assert ":***@" in kinds.StoreUrl().show(url) or "password=***" in kinds.StoreUrl().show(url)
    assert "store_password_file" in str(kinds.StoreUrl().flag_problem(url))


def test_enrolment_token__is_never_shown() -> None:
    assert kinds.EnrolmentToken().show("abc123") == '"***"'
    assert kinds.EnrolmentToken().show("/etc/sluice/token") == '"/etc/sluice/token"'
    with pytest.raises(FieldError) as error:
        kinds.EnrolmentToken().read("enrol", "abc 123")
    assert "abc" not in str(error.value)


def test_store_url__check_wants_a_folder_that_can_be_written() -> None:
    assert "no folder" in str(kinds.StoreUrl().problem("sqlite:////dev/null/store.db"))
    assert kinds.StoreUrl().problem("sqlite:////tmp/store.db") is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5min", 90), ("12h", 43_200), ("7 d", 604_800)]
)
def test_age(text: str, seconds: int) -> None:
    assert kinds.Age().read("x", text) == seconds


def test_age__is_shown_as_a_user_writes_it() -> None:
    for shown in ('"90s"', '"12h"', '"7d"', '"forever"'):
        assert kinds.Age().show(kinds.Age().read("x", shown.strip('"'))) == shown


def test_files__what_check_says(tmp_path: Path) -> None:
    assert "is no file" in str(kinds.FileToRead().problem(tmp_path))
    assert kinds.FileToWrite().problem(tmp_path / "new" / "file") is None
    assert kinds.FileToWrite(dash=True).problem(Path("-")) is None
    assert kinds.Folder().problem(tmp_path) is None


def test_interface__check_names_those_of_the_machine() -> None:
    assert kinds.Interface().problem("lo") is None
    assert "lo,eth0 is none of this machine's; they are lo" in str(kinds.Interface().problem("lo,eth0"))
