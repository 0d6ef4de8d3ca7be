# SPDX-License-Identifier: Apache-2.0
"""The web process on a disk that fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from runtime.wait import wait_until
from tests.kit.small_disk import SmallDisk
from tests.unit.webui.records import record
from tests.web.conftest import PATIENCE_S, Server

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a disk of the test's own needs root")


@pytest.fixture
def disk(tmp_path: Path) -> SmallDisk:
    return SmallDisk(tmp_path / "disk")


@pytest.fixture
def on_disk(tmp_path: Path, disk: SmallDisk) -> Iterator[Server]:
    """A server whose store is on the small disk."""
    server = Server(tmp_path, f"sqlite:///{disk.folder}/store.db")
    server.prefix = disk.prefix
    server.start()
    yield server
    server.stop()


def post(server: Server, *names: str) -> requests.Response:
    return requests.post(f"{server.url}/api/v1/flows", json=[*map(record, names)], timeout=PATIENCE_S)


def error_of(answer: requests.Response) -> dict[str, Any]:
    return dict(answer.json()["error"])


def test_a_full_disk_is_a_503_that_says_disk__and_room_ends_it(on_disk: Server, disk: SmallDisk) -> None:
    pid = on_disk.process.pid
    assert post(on_disk, "before").status_code == 200
    disk.fill(pid)
    names = [f"during{number}" for number in range(300)]
    answer = post(on_disk, *names)
    assert answer.status_code == 503
    assert error_of(answer)["code"] == "disk-full"
    assert "make room" in error_of(answer)["problem"]
    assert on_disk.get("health")["store"]["kind"] == "sqlite"  # reading needs no room
    disk.make_room(pid)
    assert post(on_disk, "before", *names).json() == {"accepted": 300, "known": 1}
    assert on_disk.process.poll() is None


def test_a_web_process_starts_on_a_full_disk(on_disk: Server, disk: SmallDisk) -> None:
    pid = on_disk.process.pid
    assert post(on_disk, "before").status_code == 200
    disk.fill(pid)
    os.kill(_worker(pid), 9)  # the new worker opens the store
    wait_until(lambda: error_of(post(on_disk, *map(str, range(300))))["code"] == "disk-full", "it answers")
    disk.make_room(pid)
    wait_until(lambda: post(on_disk, "after").status_code == 200, "it takes records", timeout_s=PATIENCE_S)


def _worker(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
