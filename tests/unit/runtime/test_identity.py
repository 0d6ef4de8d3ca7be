# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
import sys

from sluice.runtime.identity import has_ended, my_identity
from sluice.runtime.wait import wait_until


def test_a_process_that_runs_has_not_ended() -> None:
    assert my_identity() == my_identity()
    assert not has_ended(my_identity())


def test_a_killed_process_has_ended_even_before_its_parent_waits_for_it() -> None:
    code = "from sluice.runtime.identity import my_identity; print(my_identity(), flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        identity = child.stdout.readline().strip()
        assert not has_ended(identity)
        child.kill()
        wait_until(lambda: has_ended(identity), "the process has ended")


def test_another_process_with_the_same_number_is_not_the_same() -> None:
    boot, namespace, pid, started = my_identity().split("/")
    assert has_ended(f"{boot}/{namespace}/{pid}/{int(started) - 1}")


def test_processes_of_other_machines_and_namespaces_never_count_as_ended() -> None:
    _, namespace, _, _ = my_identity().split("/")
    assert not has_ended(f"another-boot/{namespace}/1/1")
    assert not has_ended(my_identity().replace(f"/{namespace}/", "/1/"))
    assert not has_ended("somebody")
