# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from sluice import cli, topologies
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.field_kinds import Override
from sluice.store.desired import current_policy, current_version, mark_applied, put_topology

Command = Callable[..., int]


@pytest.fixture
def policy(url: str, engine: Engine, tmp_path: Path) -> Iterator[Command]:
    """`sluice policy`, with a controller that applies every version at once."""
    token_file = tmp_path / "token"
    token_file.write_text("token")
    stop = threading.Event()

    def apply_at_once() -> None:
        while not stop.wait(0.01):
            mark_applied(engine, current_version(engine))

    controller = threading.Thread(target=apply_at_once)
    controller.start()
    yield lambda *words: cli.main(["policy", "--url", url, "--token-file", str(token_file), *words])
    stop.set()
    controller.join()


def in_force(engine: Engine) -> Policy:
    current = current_policy(engine)
    assert current is not None
    return current.policy


def test_a_canary_and_the_way_back(policy: Command, engine: Engine, tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('scheme = "pias"\nthresholds = ["10KB"]\nqueues = 2\n')
    assert policy("set", str(file)) == 0
    assert policy("act", "--at", "rack1:3", "rack1:4") == 0
    assert (in_force(engine).scheme, in_force(engine).acts_at) == ("pias", ("rack1:3", "rack1:4"))
    assert policy("rollback") == 0
    assert in_force(engine).acts_at == ("*",)
    assert policy("act", "--nowhere") == 0
    assert in_force(engine).only_watches
    assert policy("rollback", "2") == 0
    assert in_force(engine).acts_at == ("rack1:3", "rack1:4")


def test_rollback__says_which_version_it_repeats_and_what_another_one_does(
    policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.toml").write_text('scheme = "pias"\nthresholds = ["10KB"]\nqueues = 2\n')
    policy("set", str(tmp_path / "policy.toml"))
    assert policy("rollback") == 2
    assert "version 1 is the first policy: there is none before it" in capsys.readouterr().err
    policy("set", "thresholds=20KB")
    for repeated, undone, thresholds in ((1, 2, (10_000,)), (2, 3, (20_000,)), (3, 4, (10_000,))):
        capsys.readouterr()
        assert policy("rollback") == 0
        said = " ".join(capsys.readouterr().out.split())
        assert f"it repeats version {repeated}. " in said
        assert f"Another `sluice policy rollback` returns to version {undone}; " in said
        assert in_force(engine).thresholds == thresholds
    assert policy("rollback", "1") == 0
    assert "version 1 is the same policy; give the number of another version" in capsys.readouterr().out
    assert policy("rollback", "9") == 2
    assert "there is no version 9; the newest are 5, 4, 3, 2, 1" in capsys.readouterr().err


def test_show__lists_the_versions(
    policy: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.toml").write_text('scheme = "dctcp"\nacts_at = []\n')
    policy("set", str(tmp_path / "policy.toml"))
    assert policy("show") == 0
    shown = capsys.readouterr().out
    assert '"scheme": "dctcp"' in shown
    assert "no port" in shown


def test_set__changes_some_keys_and_prints_what_changes(
    policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('scheme = "pias"\nthresholds = ["10KB"]\nqueues = 2\nbuffer = "60KB"\n')
    policy("set", str(file))
    capsys.readouterr()
    assert policy("set", "queues=3", "thresholds=10KB,1MB", "mark_at=18KB") == 0
    now = in_force(engine)
    assert (now.queues, now.thresholds, now.mark_at, now.buffer) == (3, (10_000, 1_000_000), 18_000, 60_000)
    lines = [line.split("│")[1:4] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert [[cell.strip() for cell in line] for line in lines] == [
        ["queues", "2", "3"],
        ["thresholds", '["10KB"]', '["10KB", "1MB"]'],
        ["mark_at", '"97500B"', '"18KB"'],
        ["untagged_queue", "1", "2"],
    ]
    assert policy("set", "thresholds=20KB", "queues=2") == 0
    assert in_force(engine).thresholds == (20_000,)


def test_set__what_changes_nothing_makes_no_version(
    policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.toml").write_text('scheme = "dctcp"\n')
    policy("set", str(tmp_path / "policy.toml"))
    assert policy("set", "mark_at=97500B") == 0
    assert "nothing changes" in capsys.readouterr().out
    assert current_version(engine) == 1


def test_freeze_and_unfreeze(
    policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_topology(engine, topologies.build("single", hosts=2))
    (tmp_path / "policy.toml").write_text('scheme = "mlfq-adaptive"\n')
    policy("set", str(tmp_path / "policy.toml"))
    assert policy("freeze", "s1:2", "s1:9") == 2
    assert 'overrides[0].ports: the network has no port "s1:9"' in capsys.readouterr().err
    put_topology(engine, topologies.build("single", hosts=9))
    assert policy("freeze", "s1:2", "s1:9") == 0
    assert [in_force(engine).is_frozen(port) for port in ("s1:1", "s1:2")] == [False, True]
    put_topology(engine, topologies.build("single", hosts=2))
    assert policy("unfreeze", "s1:2") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert 'warning: overrides[0].ports: the network has no port "s1:9"' in said
    assert in_force(engine).overrides == (Override(("s1:9",), None, True),)
    assert policy("unfreeze", "s1:2") == 2
    assert "s1:2: no override freezes s1:2 by this name; frozen are s1:9" in capsys.readouterr().err


def test_set__a_wrong_key_is_named_as_written(
    policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.toml").write_text('scheme = "pias"\n')
    policy("set", str(tmp_path / "policy.toml"))
    for words, message in (
        (["mark_att=1KB"], "mark_att: is not a key here (did you mean mark_at?)"),
        (["mark_at=18K"], 'mark_at: "18K" is not a quantity'),
        (["thresholds=10KB"], "thresholds: must be a list of 7 values"),
        (["scheme=tcp", "thresholds=10KB"], "thresholds: scheme tcp has no thresholds"),
        (["mark_at=1KB", "other.toml"], 'give one file, or only KEY=VALUE; "other.toml" has no ='),
        (["a b=1"], "policy set a b=1: must be key=value, for example policy set mark_at=18KB"),
    ):
        assert policy("set", *words) == 2
        assert message in capsys.readouterr().err
    assert current_version(engine) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["act", "--nowhere"], "there is no policy yet: put one in force with `sluice policy set FILE`"),
        (["rollback"], "there is no policy yet: put one in force"),
        (["set", "no-such-file.toml"], "cannot read no-such-file.toml: No such file or directory"),
        (["set", "mark_at=18KB"], "there is no policy yet"),
        (["freeze", "s1:1"], "there is no policy yet"),
    ],
)
def test_errors_name_the_remedy(
    policy: Command, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert policy(*words) == 2
    assert message in capsys.readouterr().err
