# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine

from sluice import cli
from sluice.policy.network.description import SeenHost, SeenPort, SeenSwitch, Sightings
from sluice.store.networks import current_network, put_sightings

Command = Callable[..., int]
MAC = "52:54:00:00:00:11"
PORTS = (SeenPort(1, "web1", 10**9, True), SeenPort(2, "up", 10**10, True))
SEEN = Sightings({0xF1: SeenSwitch(0xF1, "front", PORTS)}, {}, {MAC: SeenHost(MAC, (0xF1, 1), "192.0.2.11")})


@pytest.fixture
def network(url: str, engine: Engine, tmp_path: Path) -> Command:
    """`sluice network`, with a switch that the controller has reported."""
    put_sightings(engine, SEEN)
    token_file = tmp_path / "token"
    token_file.write_text("token")
    return lambda *words: cli.main(["network", "--url", url, "--token-file", str(token_file), *words])


@pytest.fixture
def file(network: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """What `discover` prints, in a file."""
    assert network("discover") == 0
    path = tmp_path / "network.toml"
    path.write_text(capsys.readouterr().out)
    return path


def test_discover__prints_a_description_that_agrees(
    network: Command, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tomllib.loads(file.read_text())
    assert document["switch"][0]["port"] == [
        {"name": "web1", "rate": "1Gbit"},
        {"name": "up", "rate": "10Gbit"},
    ]
    assert network("check", str(file)) == 0
    assert "agrees with the switches" in capsys.readouterr().out


def test_apply__diff_and_remove(
    network: Command, file: Path, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert network("diff", str(file)) == 0
    assert '+name = "front"' in capsys.readouterr().out
    assert network("apply", str(file)) == 0
    network("diff", str(file))
    assert "+" not in capsys.readouterr().out.replace("\n+++", "")
    assert network("show") == 0
    assert "192.0.2.11" in capsys.readouterr().out
    assert network("remove") == 0
    newest = current_network(engine)
    assert newest is not None
    assert newest.network is None


def test_a_contradiction_is_exit_code_1(
    network: Command, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text().replace('name = "up"', 'name = "uplink"'))
    assert network("check", str(file)) == 1
    assert "front:uplink: the switch has no port of this name" in capsys.readouterr().out.replace("\n", " ")
    assert network("apply", str(file)) == 1, "it is put in force all the same: the port may come"


def test_check__without_a_web_process_reads_the_file_alone(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["network", "--url", "http://127.0.0.1:9", "check", str(file)]) == 0
    assert "was not compared" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("switch = 3", "switch: must be a list"),
        ("[[switch]]\nname = 'x'", "switch[0].datapath_id: is missing"),
        ("nonsense", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_before_anything_is_asked(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text)
    assert cli.main(["network", "--url", "http://127.0.0.1:9", "apply", str(path)]) == 2
    assert message in capsys.readouterr().err
