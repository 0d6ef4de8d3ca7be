# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import subprocess

from topologies import processes


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
