# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
from pathlib import Path

import pytest

from sluice.commands import demo
from sluice.commands.demo import AUTO, check_free, chosen
from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import SIMULATOR, TESTBED


def test_check_free__an_address_in_use_is_an_error_with_its_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SluiceError, match="choose another --listen"):
            check_free(address)
    check_free(address)


@pytest.mark.parametrize("listen", ["8080", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999"])
def test_check_free__no_address(listen: str) -> None:
    with pytest.raises(SluiceError):
        check_free(listen)


def deny(monkeypatch: pytest.MonkeyPatch, obstacle: str | None) -> None:
    monkeypatch.setattr(demo, "obstacle", lambda: obstacle)


def test_chosen__auto_takes_the_testbed_where_it_can_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deny(monkeypatch, None)
    (scenario, *_), on = chosen(AUTO, None)
    assert (scenario.name, on) == ("demo", TESTBED)
    assert capsys.readouterr().out == ""


def test_chosen__auto_says_in_one_line_why_the_network_is_simulated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deny(monkeypatch, "a kernel without BTF")
    (scenario, document, _), on = chosen(AUTO, None)
    assert (scenario.name, document["name"], on) == ("demo-simulator", "demo-simulator", SIMULATOR)
    assert capsys.readouterr().out == "simulated network, because: a kernel without BTF\n"


def test_chosen__auto_simulates_a_scheme_that_the_testbed_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    deny(monkeypatch, None)
    path = tmp_path / "pfabric.toml"
    path.write_text(
        """
        name = "mine"
        fabric = {topology = "single"}
        scheme = {name = "pfabric"}
        workload = {flow = [{from = "h1", to = "h2", bytes = "1MB"}]}
        """
    )
    (scenario, *_), on = chosen(AUTO, path)
    assert (scenario.name, on) == ("mine", SIMULATOR)
    assert "serve the shortest remaining flow first" in capsys.readouterr().out


def test_chosen__a_demanded_testbed_fails_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    deny(monkeypatch, "no root rights")
    with pytest.raises(SluiceError, match="no root rights"):
        chosen(TESTBED, None)


def test_chosen__a_demanded_simulator_asks_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deny(monkeypatch, "no root rights")
    (scenario, *_), on = chosen(SIMULATOR, Path("demo"))
    assert (scenario.name, on) == ("demo", SIMULATOR)
    assert capsys.readouterr().out == ""
