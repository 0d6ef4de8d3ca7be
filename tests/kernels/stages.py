# SPDX-License-Identifier: Apache-2.0
"""What runs in a guest, and what does not because of the time that it takes there."""

from __future__ import annotations

import shlex
from pathlib import Path

INSIDE = "SLUICE_GUEST"
"""Environment variable: these processes run in a guest."""
PATIENCE = 15
TEST_S = 900

_PYTEST = [".venv/bin/python", "-m", "pytest", "-v", "-p", "no:cacheprovider", f"--timeout={TEST_S}"]
_AGAIN = "not again_and_again"
"""Tests that repeat the same thing some twenty times."""

STAGES: dict[str, list[str]] = {
    "doctor": [".venv/bin/python", "-m", "sluice", "doctor", "--quick"],
    "programs": [
        *_PYTEST,
        "tests/kernel/test_loader.py",
        "tests/kernel/test_port_attach.py",
        "tests/kernel/test_sockopt_attach.py",
        "tests/kernel/test_flow_queues.py",
        "tests/kernel/test_watch_life.py",
        "tests/kernel/test_controls.py",
        "-k",
        _AGAIN,
    ],
    "switch": [*_PYTEST, "tests/kernels/inside/test_switch.py"],
    "delays": [*_PYTEST, "tests/kernels/inside/test_delays.py"],
}
"""Name → command."""

SKIPPED = {
    "test_deadline.py": "whole connections with deadlines of milliseconds, which this slow machine misses",
    "test_deadline_examples.py": "compiles and runs the examples in C and Go",
    "test_dctcp.py": "windows and rates over many round trips: half an hour under emulation",
    "test_port.py": "hundreds of frames for each law of the port: half an hour under emulation",
    "test_sockopt.py": "every combination of fields: the hook itself is in test_sockopt_attach.py",
    "test_sockopt_bytes.py": "every length of an option: the hook itself is in test_sockopt_attach.py",
    "test_tagger.py": "connections of many megabytes: loading is in test_loader.py",
    "test_tutorial.py": "runs the code of the tutorials, with the compiler",
    "test_watch.py": "connections of many megabytes: attaching is in test_watch_life.py",
}
"""Files of tests/kernel that do not run in a guest, and why."""


def script(output: Path) -> str:
    """Return the shell script that runs every stage in a guest and writes NAME.out and NAME.code."""
    lines = [f"export {INSIDE}=1 SLUICE_PATIENCE={PATIENCE} PYTHONPATH=$PWD PYTHONUNBUFFERED=1"]
    for name, command in STAGES.items():
        place = shlex.quote(str(output / name))
        lines += [f"{shlex.join(command)} > {place}.out 2>&1", f"echo $? > {place}.code"]
    return "\n".join(lines) + "\n"
