# SPDX-License-Identifier: Apache-2.0
"""The web process on a disk that fails."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from sqlalchemy import Engine

from sluice.runtime.wait import wait_until
from sluice.store.engine import open_store
from tests.kit.small_disk import SmallDisk
from tests.unit.webui.records import record
from tests.web.conftest import PATIENCE_S, Server, eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="a disk of the test's own needs root")

STARTED_AT = time.time()


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> SmallDisk:
    return SmallDisk(tmp_path_factory.mktemp("small") / "disk")


@pytest.fixture(scope="module")
def on_disk(disk: SmallDisk, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose store is on the small disk. Each test leaves room on it."""
    server = Server(tmp_path_factory.mktemp("web"), f"sqlite:///{disk.folder}/store.db")
    server.prefix = disk.prefix
    server.start()
    yield server
    server.stop()


def post(server: Server, *names: str) -> requests.Response:
    records = [
        record(name, started_at=STARTED_AT) for name in names
    ]  # a second delivery has the same records
    return requests.post(f"{server.url}/api/v1/flows", json=records, timeout=PATIENCE_S)


def error_of(answer: requests.Response) -> dict[str, Any]:
    return dict(answer.json()["error"])


def test_a_full_disk_is_a_503_that_says_disk__and_room_ends_it(on_disk: Server, disk: SmallDisk) -> None:
    pid = on_disk.process.pid
    assert post(on_disk, "before").status_code == 200
    assert on_disk.get("health")["store"]["reachable"]
    disk.fill(pid)
    names = [f"during{number}" for number in range(300)]
    answer = post(on_disk, *names)
    assert (answer.status_code, error_of(answer)["code"]) == (503, "disk-full")
    assert "make room" in error_of(answer)["problem"]
    assert on_disk.get("health")["store"]["kind"] == "sqlite"  # reading needs no room
    # Whether the store is reachable is measured by a write.
    eventually(lambda: not on_disk.get("health")["store"]["reachable"], "it sees the disk")
    assert "disk-full" in {problem["kind"] for problem in on_disk.get("health")["problems"]}
    disk.make_room(pid)
    assert post(on_disk, "before", *names).json() == {"accepted": 300, "known": 1}
    eventually(lambda: on_disk.get("health")["store"]["reachable"], "it is back")
    assert on_disk.process.poll() is None


def test_a_web_process_starts_on_a_full_disk(on_disk: Server, disk: SmallDisk) -> None:
    pid = on_disk.process.pid
    disk.fill(pid)
    os.kill(_worker(pid), 9)  # the new worker opens the store
    wait_until(lambda: error_of(post(on_disk, *map(str, range(300))))["code"] == "disk-full", "it answers")
    disk.make_room(pid)
    eventually(lambda: post(on_disk, "after").status_code == 200, "it takes records")


def _worker(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def test_a_store_that_is_no_longer_there_is_a_503_until_it_is_moved_back(server: Server) -> None:
    assert post(server, "before").status_code == 200
    file, away = server.folder / "store.db", server.folder / "away.db"
    file.rename(away)
    answer = post(server, "after")
    assert (answer.status_code, error_of(answer)["code"]) == (503, "store-gone")
    assert "put it back" in error_of(answer)["problem"]

    def health() -> requests.Response:
        return requests.get(f"{server.url}/api/v1/health", timeout=PATIENCE_S)

    eventually(lambda: not health().ok, "the health is no longer the one of a moment ago")
    assert (health().status_code, error_of(health())["code"]) == (503, "store-gone")
    assert not file.exists(), "no empty store in its place"
    away.rename(file)
    assert post(server, "before", "after").json() == {"accepted": 1, "known": 1}
    file.unlink()
    open_store(server.store_url).dispose()  # another store in its place
    assert error_of(post(server, "later"))["code"] == "store-gone"


def test_a_damaged_store_is_a_503_and_a_copy_is_kept_aside(server: Server, engine: Engine) -> None:
    for batch in range(40):
        assert post(server, *(f"{batch}.{number}" for number in range(100))).status_code == 200
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    file = server.folder / "store.db"
    size = file.stat().st_size
    with file.open("r+b") as pages:
        pages.seek(8192)
        pages.write(b"\xa5" * (size - 8192))
    # Until a page is not in SQLite's cache.
    eventually(lambda: post(server, "after").status_code != 200, "it sees the damage")
    answer = post(server, "after")
    assert (answer.status_code, error_of(answer)["code"]) == (503, "store-damaged")
    assert ".recover" in error_of(answer)["problem"]
    assert (server.folder / "store.db.damaged").stat().st_size == size


def test_a_file_that_is_no_store_is_one_line_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"\0garbage" * 5000)
    store_url = f"sqlite:///{tmp_path}/store.db"
    argv = [sys.executable, "-m", "sluice", "web", "--config", os.devnull, "--store", store_url]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=PATIENCE_S)
    assert ended.returncode == 2
    assert "Traceback" not in ended.stderr
    assert "the store is damaged" in ended.stderr.splitlines()[-1]
