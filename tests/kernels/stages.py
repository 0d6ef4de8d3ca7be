# SPDX-License-Identifier: Apache-2.0
"""What runs in a guest, and what does not because of the time that it takes there."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

INSIDE = "SLUICE_GUEST"
"""Environment variable: these processes run in a guest."""
PATIENCE = 15
TEST_S = 900

_PLUGINS = ["-p", "no:cacheprovider", "-p", "pytest_timeout"]
_PYTEST = [".venv/bin/python", "-m", "pytest", "-v", "-rs", "--durations=5", *_PLUGINS, f"--timeout={TEST_S}"]
SKIPPED = {
    "test_controls.py": "rates of flows at a fast link; registering is in test_loader.py",
    "test_deadline.py": "deadlines of milliseconds, which the slow clock misses",
    "test_deadline_examples.py": "compiles and runs the examples in C and Go",
    "test_flow_queues.py::test_a_packet_dropped_at_the_buffer_is_in_no_sub_queue": "the sender must outrun the link",
    "test_flow_queues.py::test_flows_take_turns_with_any_backlogs": "the sender must outrun the link",
    "test_flow_queues.py::test_priorities_stay_strict_above_flow_queues": "the sender must outrun the link",
    "test_flow_queues.py::test_a_packet_that_a_full_queue_drops_does_not_wait": "the sender must outrun the link",
    "test_flow_queues.py::test_a_packet_that_a_busy_driver_returns_leaves_once": "veth is never busy before Linux 6.16",
    "test_forwarding.py": "packets that pass at once, which the slow clock holds; attaching is in test_port_attach.py",
    "test_restart.py": "windows over many round trips; registering is in test_loader.py",
    "test_dctcp.py": "windows and rates over many round trips; registering is in test_loader.py",
    "test_http_sizes.py": "runs the example server",
    "test_loader.py::test_load__again_and_again_leaves_nothing": "twenty times the same",
    "test_loader.py::test_register__again_and_again_leaves_nothing": "twenty times the same",
    "test_sockopt_attach.py::test_attach__again_and_again_leaves_nothing": "twenty times the same",
    "test_port_drop_order.py": "backlogs of a link that must stand still while frames are sent",
    "test_port.py": "rates and backlogs of a fast link; attaching is in test_port_attach.py",
    "test_sockopt.py": "every combination of fields; attaching is in test_sockopt_attach.py",
    "test_sockopt_bytes.py": "every length of an option; attaching is in test_sockopt_attach.py",
    "test_tag_burst.py": "a pause of milliseconds within a flow, which the slow clock makes, begins another one",
    "test_tagger.py": "connections of many megabytes; loading is in test_loader.py",
    "test_rpc_page.py": "runs the server of a page under real deadlines",
    "test_tutorial.py": "runs the code of the tutorials, with the compiler",
    "test_watch_flows.py": "pauses of milliseconds between flows, which the slow clock stretches",
    "test_watch.py": "connections of many megabytes; attaching is in test_watch_life.py",
}
"""Files and tests of tests/kernel that do not run in a guest, and why."""

_DESELECTED = [f"--deselect=tests/kernel/{name}" for name in SKIPPED if "::" in name]
_LOADS = ("test_loader.py", "test_port_attach.py", "test_sockopt_attach.py")
_FLOWS = (
    "test_flow_queues.py",
    "test_host.py",
    "test_link_queues.py",
    "test_watch_life.py",
    "test_windows.py",
)
_INSIDE = [*_PYTEST, "tests/kernels/inside"]

STAGES: dict[str, list[str]] = {
    "doctor": [".venv/bin/python", "-m", "sluice", "doctor", "--quick"],
    "loads": [*_PYTEST, *(f"tests/kernel/{name}" for name in _LOADS), *_DESELECTED],
    "flows": [*_PYTEST, *(f"tests/kernel/{name}" for name in _FLOWS), *_DESELECTED],
    "kernel": [*_INSIDE, "-k", "not userspace"],
    "userspace": [*_INSIDE, "-k", "userspace"],
}
"""Name → command. The last two are named after Open vSwitch's datapaths."""


def script(output: Path, stages: Iterable[str]) -> str:
    """Return the shell script that runs the stages in a guest. Each writes NAME.out, NAME.code and NAME.seconds."""
    lines = [
        f"export {INSIDE}=1 SLUICE_PATIENCE={PATIENCE} PYTHONPATH=$PWD PYTHONUNBUFFERED=1",
        "export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",  # plugins that no test here uses take minutes to import
    ]
    for name in stages:
        place = shlex.quote(str(output / name))
        command = f"{shlex.join(STAGES[name])} > {place}.out 2>&1"
        lines += ["SECONDS=0", command, f"echo $? > {place}.code; echo $SECONDS > {place}.seconds"]
    return "\n".join(lines) + "\n"


def skips(output: str) -> list[str]:
    """Return the lines in which pytest names the tests that it skipped in a guest, with the reasons."""
    return [line for line in output.splitlines() if line.startswith("SKIPPED [")]
