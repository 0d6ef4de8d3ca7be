# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from policy.errors import SluiceError
from runtime.command import run
from sluice.export.gnmi import GnmiTarget, apply
from sluice.export.sonic import ADAPTED_TABLE, Tables
from tests.fakes.gnmi import FakeSwitch

TABLES: Tables = {
    "SCHEDULER": {"SLUICE": {"type": "STRICT"}},
    "QUEUE": {"Ethernet0|0": {"scheduler": "SLUICE"}, "Ethernet0|1": {"scheduler": "SLUICE"}},
    ADAPTED_TABLE: {"SLUICE_Ethernet0": {"0": "1", "1": "0"}},
}


@pytest.fixture
def switch() -> Iterator[FakeSwitch]:
    found = FakeSwitch()
    yield found
    found.stop()


def plain(switch: FakeSwitch) -> GnmiTarget:
    return GnmiTarget(f"127.0.0.1:{switch.port}", None)


def test_apply__all_rows_arrive_in_one_request(switch: FakeSwitch) -> None:
    assert apply(TABLES, plain(switch)) == 4
    assert len(switch.requests) == 1
    assert switch.rows["QUEUE", "Ethernet0|1"] == {"scheduler": "SLUICE"}
    assert switch.rows[ADAPTED_TABLE, "SLUICE_Ethernet0"] == {"0": "1", "1": "0"}


def test_apply__a_change_of_thresholds_replaces_one_row(switch: FakeSwitch) -> None:
    apply(TABLES, plain(switch))
    before = dict(switch.rows)
    apply({ADAPTED_TABLE: {"SLUICE_Ethernet0": {"0": "1", "1": "1"}}}, plain(switch))
    changed = {key for key in switch.rows if switch.rows[key] != before[key]}
    assert changed == {(ADAPTED_TABLE, "SLUICE_Ethernet0")}


def test_apply__a_switch_that_refuses_says_why_and_keeps_its_rows(switch: FakeSwitch) -> None:
    with pytest.raises(SluiceError, match=r"took no row .NOT_FOUND: no table INVENTED"):
        apply({**TABLES, "INVENTED": {"x": {}}}, plain(switch))
    assert switch.rows == {}


def test_apply__no_switch_there() -> None:
    with pytest.raises(SluiceError, match=r"127.0.0.1:1 took no row .UNAVAILABLE"):
        apply(TABLES, GnmiTarget("127.0.0.1:1", None))


def test_apply__over_tls_only_to_the_switch_that_the_authority_has_signed(tmp_path: Path) -> None:
    key, certificate = _certificate(tmp_path, "switch")
    _, other = _certificate(tmp_path, "other")
    pair = (key.read_bytes(), certificate.read_bytes())
    switch = FakeSwitch(grpc.ssl_server_credentials([pair]))
    try:
        address = f"localhost:{switch.port}"
        with pytest.raises(SluiceError, match="took no row"):
            apply(TABLES, GnmiTarget(address, other))
        assert apply(TABLES, GnmiTarget(address, certificate)) == 4
    finally:
        switch.stop()


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    run([*new, "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)])
    return key, certificate
