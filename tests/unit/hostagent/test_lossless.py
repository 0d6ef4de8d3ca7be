# SPDX-License-Identifier: Apache-2.0
"""Cards with priority flow control. No machine of these tests has one, so a program prints what dcb(8) would."""

import json
from pathlib import Path
from subprocess import TimeoutExpired

import pytest

from sluice.hostagent import lossless
from sluice.hostagent.lossless import lossless_dscps, lossless_problem

ON_3_AND_4 = {"pfc_cap": 8, "macsec_bypass": False, "delay": 0, "prio_pfc": [i in (3, 4) for i in range(8)]}
CLASSES = {"default_prio": [0], "dscp_prio": [[10, 1], [24, 3], [26, 3], [46, 5], [48, 4], [63, 4]]}


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of what a card answers, which is eth0 and a slave of bond0."""
    for name in ("net/bond0/lower_eth0", "net/eth0", "bin"):
        (tmp_path / name).mkdir(parents=True)
    program = tmp_path / "bin/dcb"
    program.write_text(
        f'#!/bin/sh\n[ "$5" = eth0 ] && exec cat {tmp_path}/$2\necho "not supported" >&2\nexit 1\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/bin:/usr/bin")
    monkeypatch.setattr(lossless, "_INTERFACES", tmp_path / "net")
    for what, shown in (("pfc", ON_3_AND_4), ("app", CLASSES)):
        (tmp_path / what).write_text(json.dumps(shown))
    return tmp_path


def test_problem__names_what_the_policy_lacks(card: Path) -> None:
    assert lossless_dscps("eth0") == lossless_dscps("bond0") == [24, 26, 48, 63]
    assert lossless_dscps("eth1") == []
    problem = lossless_problem(["bond0", "eth1"], (46,))
    assert problem == (
        "bond0 has PFC for DSCP 24, 26, 48: so that no TCP gets there, the policy needs "
        "reserved_dscp = [24, 26, 46, 48]"
    )
    assert not lossless_problem(["bond0"], (24, 26, 48))


@pytest.mark.parametrize(
    ("pfc", "app"),
    [
        (ON_3_AND_4 | {"prio_pfc": [False] * 8}, CLASSES),
        (ON_3_AND_4, {"default_prio": [3]}),
        ({}, CLASSES),
        (ON_3_AND_4, [7]),
        (ON_3_AND_4, {"dscp_prio": [[24, 9]]}),
    ],
    ids=["off", "by 802.1p", "no PFC", "no object", "no class"],
)
def test_dscps__none(card: Path, pfc: object, app: object) -> None:
    (card / "pfc").write_text(json.dumps(pfc))
    (card / "app").write_text(json.dumps(app))
    assert lossless_dscps("eth0") == []


def test_dscps__none_from_a_tool_that_hangs(card: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent goes on."""

    def hang(argv: list[str], *, timeout_s: float) -> str:
        raise TimeoutExpired(argv, timeout_s)

    monkeypatch.setattr(lossless, "run", hang)
    assert lossless_dscps("eth0") == []


def test_dscps__of_a_real_interface_without_it() -> None:
    assert lossless_dscps("lo") == []
