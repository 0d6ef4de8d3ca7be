# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess
import sys

import pytest

from sluice.runtime.wait import wait_until
from sluice.topologies import processes


def test_children__of_this_process() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    try:
        assert child.pid in processes.children(os.getpid())
    finally:
        child.communicate()
    assert child.pid not in processes.children(os.getpid())


def test_a_process_that_is_gone_has_no_namespace_and_no_status() -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    assert processes.namespace(child.pid, "net") is None
    assert processes.status_field(child.pid, "PPid") == []


def test_a_process_has_ended_even_if_its_parent_has_not_collected_it() -> None:
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    assert not processes.has_ended(child.pid)
    child.kill()
    wait_until(lambda: processes.has_ended(child.pid), "the child has ended")
    assert processes.status_field(child.pid, "State")[0] == "Z"
    child.communicate()
    assert processes.has_ended(child.pid)


@pytest.mark.parametrize("program", ["sluice.topologies.supervisor", "sluice.hostagent.port.agent"])
def test_the_processes_of_a_testbed_start_without_numpy(program: str) -> None:
    """It takes a quarter of a second of each start, and no process of a testbed uses it."""
    loaded = f"import sys, {program}; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
