# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from policy.desired import Policy
from sluice import cli
from store.desired import current_policy, current_version, mark_applied

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


def test_show__lists_the_versions(
    policy: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.toml").write_text('scheme = "dctcp"\nacts_at = []\n')
    policy("set", str(tmp_path / "policy.toml"))
    assert policy("show") == 0
    shown = capsys.readouterr().out
    assert '"scheme": "dctcp"' in shown
    assert "no port" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["act", "--nowhere"], "there is no policy yet: put one in force with `sluice policy set FILE`"),
        (["rollback"], "there is no version 0; the newest are none"),
        (["set", "no-such-file.toml"], "cannot read no-such-file.toml: No such file or directory"),
    ],
)
def test_errors_name_the_remedy(
    policy: Command, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert policy(*words) == 2
    assert message in capsys.readouterr().err
