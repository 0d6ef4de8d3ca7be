# SPDX-License-Identifier: Apache-2.0
"""Every argument of every command gets wrong values. Each ends with code 2 and a line that says what is wrong."""

import argparse
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice import cli
from sluice.cli import COMMANDS, main
from sluice.commands import inside
from sluice.policy.schema.desired import Policy
from sluice.store.desired import put_policy
from tests.kit.bundles import bundle, document, flow

SCENARIO = """
name = "x"
fabric = { topology = "single" }
scheme = { name = "dctcp" }
workload = { flows = 2, sizes = "web-search", load = 0.5 }
"""
RUN = "run FILE.toml --on simulator --out NEW"
SWEEP = "sweep FILE.toml --out NEW"
DEMO = "demo FILE.toml --on simulator --out NEW"
EXPORT = "export sonic FILE.toml --interfaces Ethernet0"
AWAY = "http://127.0.0.1:1"
HERE = "WEB"
"""A word of a command line that becomes the address of a web process, which knows the token."""
FILES = ("nothing.toml", "FOLDER", "BINARY", "TEXT", "", "TEXT/x.toml", "LIST.json", "TEXT.json")
NUMBERS = ("", "-1", "1.5", "0", "1e3", "²")
TIMES = ("", "-5", "0", "nan", "1e400", "5s")
FOLDERS = ("", " ", "TEXT", "TEXT/x", "/proc/x")
OUT_FILES = ("", " ", "FOLDER", "TEXT/x")
URLS = ("", "x", "ftp://x", "http://", "http://[", "http://127.0.0.1:99999", AWAY, "unix:/nothing")
PLUGINS = ("", "nothing.py", "FOLDER", "TEXT", "BINARY", "FILE.toml", "PLUGIN.py")
STORES = ("", "x", "sqlite://", "sqlite:///FOLDER", "sqlite:////nothing/x.db", "mysql://x")
TOKENS = ("nothing", "FOLDER", "EMPTY")

WRONG: dict[str, tuple[str, tuple[str, ...]]] = {
    "run scenario": ("run _ --on simulator --out NEW", (*FILES, "paper-mxi")),
    "run --on": (RUN, ("", "x", "SIMULATOR")),
    "run --plugin": (RUN, PLUGINS),
    "run --set": (
        RUN,
        ("", "x", "=1", "a b=1", "fabric=1", "fabric.x=1", "seed.x=1", "workload.flows=0", "seed=x"),
    ),
    "run --flows": (RUN, (*NUMBERS, "9" * 40)),
    "run --threads": (RUN, (*NUMBERS, "9" * 40)),
    "run --pcap": (RUN, ("", "x", "h1", "s1:9", "s1:*", "*")),
    "run --out": (RUN, FOLDERS),
    "run --store": (RUN, STORES),
    "run --event-log": (RUN, OUT_FILES),
    "sweep scenario": ("sweep _ --out NEW", (*FILES, "paper-mxi")),
    "sweep --schemes": (SWEEP, ("", "x", "../x", "DCTCP")),
    "sweep --loads": (SWEEP, ("", "x", "-1", "0", "1", "nan", "inf")),
    "sweep --seeds": (SWEEP, ("", "x", "-1", "1.5", "9" * 40)),
    "sweep --plugin": (SWEEP, PLUGINS),
    "sweep --set": (SWEEP, ("", "x", "=1", "fabric.x=1", "scheme.name=pias")),
    "sweep --on": (SWEEP, ("", "x")),
    "sweep --jobs": (SWEEP, NUMBERS),
    "sweep --cluster": (SWEEP, ("", "x", "SLURM")),
    "sweep --profile": (SWEEP, ("nothing", "TEXT")),
    "sweep --job-minutes": (SWEEP, TIMES),
    "sweep --out": (SWEEP, FOLDERS),
    "attach --rate": ("attach", ("", "x", "0", "-1Mbit", "1e3")),
    "attach --scheme": ("attach", ("", "x", "PIAS")),
    "attach --listen": ("attach", ("", "x", "127.0.0.1:x", "0.0.0.0:8080")),
    "attach --out": ("attach", FOLDERS[:-1]),
    "compare folders": ("compare _", ("", "nothing", "FOLDER", "TEXT")),
    "compare --plugin": ("compare BUNDLE", PLUGINS),
    "compare --out": ("compare BUNDLE", OUT_FILES),
    "compare --figures": ("compare BUNDLE", FOLDERS),
    "compare --baseline": ("compare BUNDLE", ("", "x")),
    "demo scenario": ("demo _ --on simulator", FILES),
    "demo --plugin": (DEMO, PLUGINS),
    "demo --rate": (DEMO, ("", "x", "5", "-1Mbit", "20Mbit", "1kbit")),
    "demo --on": (DEMO, ("", "x")),
    "demo --duration": (DEMO, TIMES),
    "demo --tour-seconds": (f"{DEMO} --tour", TIMES),
    "demo --listen": (DEMO, ("", "x", "x:y", "127.0.0.1:99999", "127.0.0.1:-1")),
    "demo --out": (DEMO, FOLDERS),
    "demo --services": (DEMO, ("", "nothing", "TEXT")),
    "demo --workers": (DEMO, NUMBERS),
    "demo --store": (DEMO, STORES),
    "demo --event-log": (DEMO, OUT_FILES),
    "demo --keep-flows": (DEMO, ("", "x", "-1", "5")),
    "demo --keep-samples": (DEMO, ("", "x", "-1", "5")),
    "demo --keep-events": (DEMO, ("", "x", "-1", "5")),
    "demo --most-flows": (DEMO, ("", "x", "-1", "1.5")),
    "demo --keep-agents": (DEMO, ("", "x", "-1", "5")),
    "top --url": ("top --once", URLS),
    "top folders": ("top --once _", ("nothing", "FOLDER", "TEXT", "BINARY")),
    "policy --url": ("policy _ show", URLS),
    "policy --plugin": ("policy _ show", PLUGINS),
    "policy --token-file": (f"policy --url {HERE} _ act --nowhere", TOKENS),
    "policy set change": (f"policy --url {HERE} set _", (*FILES, "x=1", "mark_at=", "=1", "a b=1")),
    "policy preview what": (f"policy --url {HERE} preview _", ("nothing.toml", "BINARY.toml", "", "piass")),
    "policy freeze ports": (f"policy --url {HERE} freeze", ("", "x", "a:b")),
    "policy unfreeze ports": (f"policy --url {HERE} unfreeze", ("", "x", "a:b")),
    "policy act --at": (f"policy --url {HERE} act", ("", "x", "a:b")),
    "policy act --on": (f"policy --url {HERE} act --at s1:1", ("", "x y", "a:b")),
    "policy rollback version": (f"policy --url {HERE} rollback _", ("x", "1.5", "0")),
    "network --url": ("network _ show", URLS),
    "network --token-file": ("network _ remove", TOKENS),
    "network check file": (f"network --url {HERE} check _", FILES),
    "network diff file": (f"network --url {HERE} diff _", FILES),
    "network apply file": (f"network --url {HERE} apply _", FILES),
    "export sonic scenario": ("export sonic _ --interfaces Ethernet0", FILES),
    "export sonic --url": ("export sonic --running --interfaces s1:1=Ethernet0", URLS),
    "export sonic --interfaces": (EXPORT, ("", ",", "a b", "E0,E0", "s1:1=")),
    "export sonic --traffic": (EXPORT, ("", "web-search", "nothing:0.5", "web-search:1", "web-search:nan")),
    "export sonic --load": (EXPORT, ("", "x", "0", "1", "nan", "-1")),
    "export sonic --follow": ("export sonic --running --interfaces any=Ethernet0", TIMES),
    "export sonic --config": (EXPORT, FILES),
    "export sonic --out": (EXPORT, OUT_FILES),
    "capture port": ("capture _ --out NEW", ("", "x", "s1:999")),
    "capture --seconds": ("capture s1:1 --out NEW", TIMES),
    "capture --out": ("capture s1:1", OUT_FILES),
    "capture --testbed": ("capture s1:1 --out NEW", ("", "x", "1.5", "0")),
    "exec host": ("exec _ -- true", ("", "x", "h999")),
    "exec --testbed": ("exec h1 _ -- true", ("", "x", "1.5", "0")),
    "shell host": ("shell _", ("", "x", "h999")),
    "shell --testbed": ("shell h1", ("", "x", "1.5", "0")),
    "completion shell": ("completion _", ("", "x", "BASH")),
    "enrol name": (f"enrol _ --url {HERE}", ("", "a b", "x" * 100)),
    "enrol --kind": ("enrol h1", ("", "x")),
    "enrol --valid": (f"enrol h1 --url {HERE}", ("", "x", "-1", "0s", "5", "31d", "forever")),
    "enrol --url": ("enrol h1", URLS),
    "enrol --token-file": ("enrol h1", TOKENS),
    "token --url": ("token _ list", URLS),
    "token --token-file": ("token _ list", TOKENS),
    "token create --role": ("token create --expires 1d --name a", ("", "x", "READ")),
    "token create --expires": (
        "token create --role read --name a",
        ("", "x", "-1", "0s", "5", "400d", "forever"),
    ),
    "token create --name": (f"token --url {HERE} create --role read --expires 1d", ("", "a b")),
    "token revoke name": (f"token --url {HERE} revoke _", ("", "a b")),
    "revoke name": (f"revoke _ --url {HERE}", ("", "a b")),
    "revoke --url": ("revoke h1", URLS),
    "revoke --token-file": ("revoke h1", TOKENS),
    "agents --url": ("agents", URLS),
}
"""Command and argument → the rest of the command line, with _ at the argument's place, and wrong values."""

ELSEWHERE = dict.fromkeys(
    ("capture --testbed", "exec --testbed", "shell --testbed"), "no testbed runs, and the message says that"
)
"""Command and argument → why the message names something else."""


@pytest.fixture(scope="module")
def a_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bundle(tmp_path_factory.mktemp("bundle"), document(), [flow(1, 1000, 100.0)])


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, a_bundle: Path) -> Path:
    (tmp_path / "BUNDLE").symlink_to(a_bundle)
    (tmp_path / "FILE.toml").write_text(SCENARIO)
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "BINARY").write_bytes(bytes(range(256)))
    (tmp_path / "TEXT").write_text("neither TOML nor a folder")
    (tmp_path / "LIST.json").write_text("[]")
    (tmp_path / "TEXT.json").write_text("neither JSON nor a folder")
    (tmp_path / "EMPTY").touch()
    (tmp_path / "PLUGIN.py").write_text("raise ValueError('a defect')")
    monkeypatch.setattr(inside, "running_testbeds", list)  # other tests have some at the same time
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("SLUICE_TOKEN", "token")
    return tmp_path


def arguments(parser: argparse.ArgumentParser, path: str) -> Iterator[str]:
    """The arguments of a command and of its actions that take a value."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, below in action.choices.items():
                yield from arguments(below, f"{path} {name}")
        elif action.nargs != 0:
            yield f"{path} {action.option_strings[0] if action.option_strings else action.dest}"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_is_in_the_table(command: str) -> None:
    parser, _ = cli.command(command)
    assert set(arguments(parser, command)) == {key for key in WRONG if key.split()[0] == command}


def words(key: str, line: str, value: str) -> list[str]:
    option = key.split()[-1]
    given = [option, value] if option.startswith("--") else [value]
    if "_" not in line.split():
        return [*line.split(), *given]
    before, _, after = line.partition("_")
    return [*before.split(), *given, *after.split()]


@pytest.mark.parametrize("key", WRONG)
@pytest.mark.usefixtures("here")
def test_a_wrong_value_ends_with_a_line_that_says_what_is_wrong(
    key: str,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    line, values = WRONG[key]
    if HERE in line:
        put_policy(
            request.getfixturevalue("engine"), Policy.from_document({"scheme": "mlfq-adaptive"}), "test"
        )
        line = line.replace(HERE, request.getfixturevalue("url"))
    for value in values:
        began = time.monotonic()
        try:
            code: object = main(words(key, line, value))
        except SystemExit as ended:
            code = ended.code
        said = capsys.readouterr().err.strip()
        shown = f"{key} {value!r}: {said}"
        assert code == 2, shown
        assert said, shown
        assert (
            not value.strip()
            or re.split(r"[=.]", value)[0] in said
            or key.split()[-1] in said
            or key in ELSEWHERE
        ), shown
        assert len(said.splitlines()[-1]) < 800, shown
        assert "Traceback" not in said, shown
        assert time.monotonic() - began < 60, shown
        assert not Path("NEW").exists(), shown
