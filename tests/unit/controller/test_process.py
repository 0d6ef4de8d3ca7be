# SPDX-License-Identifier: Apache-2.0
"""The controller as a process: how it starts, serves, waits for its store, and stops."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from sluice.controller.openflow.frames import MessageType, message
from sluice.controller.service import check_store
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.wait import wait_until
from sluice.store import observed
from sluice.store.engine import open_store
from sluice.store.schema import SCHEMA_VERSION, schema_versions
from tests.fakes.peer import Peer
from tests.unit.controller.processes import Live, Process, Starter, changes, controller_process, polls

pytestmark = pytest.mark.slow


def let_pass(seconds: float) -> None:
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began >= seconds, f"{seconds} s")


def replace_text(path: Path, text: str) -> None:
    """Write a file that the controller never reads in part."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.rename(path)


SLOW = """
import pathlib, sys, time
from sluice.controller.app import Controller
from sluice.controller.service import SERVICE
take, pause = Controller._take_answer, pathlib.Path(sys.argv.pop(1))
def slow(*arguments):
    time.sleep(float(pause.read_text()))
    take(*arguments)
Controller._take_answer = slow
sys.exit(SERVICE.main(sys.argv[1:]))
"""
"""A controller that needs this many seconds for an answer."""


@pytest.mark.parametrize("pause_s", [0.1, 100])
def test_it_stops_under_overload(tmp_path: Path, pause_s: float) -> None:
    """More answers wait than it can handle in this time, and the first may take longer by itself."""
    pause = tmp_path / "pause"
    replace_text(pause, "0")
    with controller_process(tmp_path, start=["-c", SLOW, str(pause)]) as controller:
        peer = Peer(controller.port, 1)
        peer.run(controller.applied)
        replace_text(pause, str(pause_s))
        peer.send(1000 * message(MessageType.BARRIER_REPLY))
        let_pass(0.5)
        os.kill(controller.process.pid, signal.SIGTERM)
        assert controller.process.wait(300) == 0
        (row,) = observed.all_switches(controller.engine)
        assert row["connected"] is (pause_s > 2)
        peer.close()


# ── Clock and store ────────────────────────────────────────────────────────────────────────────

STEPPING = """
import pathlib, sys, time
real, steps = time.time, pathlib.Path(sys.argv.pop(1))
time.time = lambda: real() + float(steps.read_text())
from sluice.controller.service import SERVICE
sys.exit(SERVICE.main(sys.argv[1:]))
"""


def test_a_switch_is_brought_to_the_policy_and_the_end_does_not_wait_for_idlers(controller: Process) -> None:
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    assert len(changes(peer.received)) > 300
    (row,) = observed.all_switches(controller.engine)
    assert (row["connected"], row["name"]) == (True, "s1")
    idler = socket.create_connection(("127.0.0.1", controller.port))
    os.kill(controller.process.pid, signal.SIGTERM)
    assert controller.process.wait(300) == 0
    (row,) = observed.all_switches(controller.engine)
    assert row["connected"] is False
    idler.close()


def test_a_switch_that_answers_echo_requests_stays_until_it_falls_silent(controller: Process) -> None:
    stranger = Peer(controller.port, 99)
    stranger.run(lambda: "unknown-switch" in controller.events())
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    assert not stranger.closed
    assert changes(stranger.received) == [], "the topology does not have it"
    stranger.close()
    until = time.monotonic() + 6
    peer.run(lambda: time.monotonic() > until)
    assert not peer.closed
    assert "switch-disconnected" not in controller.events()
    wait_until(lambda: "switch-disconnected" in controller.events(), "the controller records the silence")
    assert "silent" in controller.log


def polled(peer: Live, times: int) -> bool:
    return polls(peer) >= times


def test_steps_of_the_wall_clock_change_nothing(tmp_path: Path, live: Starter) -> None:
    """The clock steps a day ahead and two days back. Lease, connection and polls stay."""
    steps = tmp_path / "steps"

    def step(to_s: float) -> None:
        replace_text(steps, str(to_s))

    step(0)
    adaptive = {"scheme": "mlfq-adaptive", "interval_ms": 100, "window_ms": 500}
    with controller_process(tmp_path, start=["-c", STEPPING, str(steps)]) as controller:
        controller.put_policy(adaptive)
        peer = live(controller.port, 1)
        wait_until(controller.applied, "the policy is applied")
        for step_s in (86_400, -86_400, 0):
            step(step_s)
            wait_until(partial(polled, peer, polls(peer) + 10), "polls go on after the step")
            controller.put_policy(adaptive)
            wait_until(controller.applied, "a policy is applied after the step")
        kinds = controller.events()
        assert kinds.count("leading") == kinds.count("switch-connected") == 1
        assert "switch-disconnected" not in kinds


def test_it_outlives_a_store_that_is_locked_for_long(controller: Process) -> None:
    """Rules change as before, and the controller writes the rows after the lock ends."""
    peer = Peer(controller.port, 1)
    peer.run(controller.applied)
    connection = controller.engine.raw_connection()
    connection.cursor().execute("BEGIN EXCLUSIVE")
    peer.close()
    again = Peer(controller.port, 1)
    again.run(lambda: len(again.received) > 300)
    connection.rollback()
    connection.close()
    again.run(lambda: controller.events().count("switch-connected") == 2)
    assert controller.process.poll() is None


def test_check_store__a_store_of_a_later_version_is_named_before_anything_starts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    engine = open_store(url)
    with engine.begin() as connection:
        connection.execute(schema_versions.insert().values(version=SCHEMA_VERSION + 1, sluice="9.1.0"))
    engine.dispose()
    with pytest.raises(EnvironmentLacking, match=r"of Sluice 9\.1\.0"):
        check_store(url)
    check_store(f"sqlite:///{tmp_path}/not-yet/store.db")  # a store that is away may come back


def test_the_module_that_uses_the_most_of_os_ken_can_be_imported_first() -> None:
    program = [sys.executable, "-c", "import sluice.controller.connection"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
