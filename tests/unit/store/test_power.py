# SPDX-License-Identifier: Apache-2.0
"""What a power failure takes from a store and from a spool, with and without fsync."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.hostagent.spool import Spool
from sluice.store.engine import open_store
from sluice.store.flows import all_flows
from tests.kit.power import Device

_STORE = """
import sys, itertools
from sluice.store.engine import open_store
from sluice.store.flows import add_flows
from tests.unit.hostagent.flows import record
engine = open_store(f"sqlite:///{{sys.argv[1]}}/store.db", fsync={fsync})
for number in itertools.count():
    add_flows(engine, [record(number)])
    print(number, flush=True)  # the web process answers now, and the agent forgets the record
"""
_SPOOL = """
import sys, itertools
from pathlib import Path
from sluice.hostagent.spool import Spool
from tests.unit.hostagent.flows import record
spool = Spool(Path(sys.argv[1]), segment_bytes=2000, fsync={fsync})
for number in itertools.count():
    spool.append(record(number))
    if number % 10 == 9:
        spool.sync()
    print(number, flush=True)
"""
LINES = 45


@pytest.fixture
def device(tmp_path: Path) -> Device:
    return Device(tmp_path / "device")


def stored(device: Device) -> set[str]:
    engine = open_store(f"sqlite:///{device.files}/store.db")
    try:
        return {flow.id for flow in all_flows(engine)}
    finally:
        engine.dispose()


def spooled(device: Device) -> set[str]:
    return Spool(device.files).ids()


def test_store__with_fsync_no_accepted_record_is_lost(device: Device) -> None:
    accepted = device.fail_during(_STORE.format(fsync=True), LINES)
    assert {f"run/{number}" for number in accepted} <= stored(device)


def test_store__without_fsync_accepted_records_are_lost_and_the_store_is_whole(device: Device) -> None:
    accepted = device.fail_during(_STORE.format(fsync=False), LINES)
    left = stored(device)
    assert len(left) < len(accepted)
    assert left == {f"run/{number}" for number in range(len(left))}  # the oldest ones


def test_spool__with_fsync_the_records_since_the_last_sync_are_lost(device: Device) -> None:
    device.fail_during(_SPOOL.format(fsync=True), LINES)
    assert {f"run/{number}" for number in range(40)} <= spooled(device)


def test_spool__without_fsync_nothing_is_certain(device: Device) -> None:
    device.fail_during(_SPOOL.format(fsync=False), LINES)
    assert spooled(device) == set()
