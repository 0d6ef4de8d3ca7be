# SPDX-License-Identifier: Apache-2.0
"""Doctor, kernel tests, and a scenario on each datapath under Debian's kernels. `make test-kernels` runs them.

The stages of a kernel share a guest. `make test-kernels ARGS='-k "[6.1-doctor]"'` runs one stage of one kernel.
"""

import re
import shlex
import subprocess
import warnings
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.dataplane import build
from sluice.runtime.command import run
from tests.kernels.conftest import INSIDE
from tests.kit.guests import CACHE, SERIES, run_in_guest

GUEST_S, TEST_S, PATIENCE = 5400, 900, 15
pytestmark = pytest.mark.timeout(GUEST_S + 60)

SKIPPED = (
    "test_flow_queues.py::test_a_packet_dropped_at_the_buffer_is_in_no_sub_queue",
    "test_flow_queues.py::test_flows_take_turns_with_any_backlogs",
    "test_flow_queues.py::test_priorities_stay_strict_above_flow_queues",
    "test_flow_queues.py::test_a_packet_that_a_full_queue_drops_does_not_wait",
    "test_flow_queues.py::test_a_packet_that_a_busy_driver_returns_leaves_once",
    "test_loader.py::test_load__again_and_again_leaves_nothing",
    "test_loader.py::test_register__again_and_again_leaves_nothing",
    "test_sockopt_attach.py::test_attach__again_and_again_leaves_nothing",
)
"""Tests of the files below that need a fast sender or a driver of Linux 6.16, or that repeat the same many times."""

_PYTEST = (
    ".venv/bin/python -m pytest -v -rs --durations=5 -p no:cacheprovider -p pytest_timeout "
    f"--timeout={TEST_S} " + " ".join(f"--deselect=tests/kernel/{name}" for name in SKIPPED)
)
_INSIDE = "tests/kernels/inside"
_LOADS = ("loader", "port_attach", "sockopt_attach")
_FLOWS = ("flow_queues", "hooks", "host", "link_queues", "watch_life")
"""Files of tests/kernel. The others judge rates and pauses in real time, or compile and run programs."""

STAGES = {
    "types": "cat /sys/kernel/btf/vmlinux",
    "doctor": ".venv/bin/python -m sluice doctor --quick",
    "loads": " ".join(
        [_PYTEST, f"{_INSIDE}/test_loads.py", *(f"tests/kernel/test_{name}.py" for name in _LOADS)]
    ),
    "flows": " ".join([_PYTEST, *(f"tests/kernel/test_{name}.py" for name in _FLOWS)]),
    "kernel": f"{_PYTEST} {_INSIDE} --ignore={_INSIDE}/test_loads.py -k 'not userspace'",
    "userspace": f"{_PYTEST} {_INSIDE} -k userspace",
    "bridge": f"{_PYTEST} tests/net/test_left_switch.py -k VLANs",
}
"""Name → shell command. `kernel` and `userspace` are Open vSwitch's datapaths."""


@pytest.fixture(scope="session")
def results(series: str, request: pytest.FixtureRequest) -> Path:
    """The folder with what the selected stages wrote in a guest of this series."""
    folder = CACHE / f"results-{series}"
    for old in folder.glob("*"):
        old.unlink()
    chosen = selected(request.session.items, series)
    with suppress(subprocess.TimeoutExpired):  # the stages that ended before are judged all the same
        run_in_guest(series, folder, ["bash", "-c", script(folder, chosen)], timeout_s=GUEST_S)
    return folder


def selected(items: Iterable[pytest.Item], series: str) -> list[str]:
    """Return the stages of a series that this run of pytest contains."""
    functions = (item for item in items if isinstance(item, pytest.Function) and hasattr(item, "callspec"))
    chosen = [function.callspec.params for function in functions]
    return [str(one["stage"]) for one in chosen if one.get("series") == series and "stage" in one]


def script(output: Path, stages: Iterable[str]) -> str:
    """Return the shell script that runs the stages in a guest. Each writes NAME.out, NAME.code and NAME.seconds."""
    lines = [
        f"export {INSIDE}=1 SLUICE_PATIENCE={PATIENCE} PYTHONPATH=$PWD PYTHONUNBUFFERED=1",
        "export PYTEST_DISABLE_PLUGIN_AUTOLOAD=1",  # plugins that no test here uses take minutes to import
    ]
    for name in stages:
        place = shlex.quote(str(output / name))
        lines += [f"SECONDS=0; {STAGES[name]} > {place}.out 2>&1; echo $? > {place}.code"]
        lines += [f"echo $SECONDS > {place}.seconds"]
    return "\n".join(lines)


def ended(results: Path, stage: str) -> Path:
    """Return the output of a stage, which must have ended well."""
    code, output = results / f"{stage}.code", results / f"{stage}.out"
    assert code.exists(), f"the guest ended before the end of this stage: see {results}"
    assert int(code.read_text()) == 0, output.read_text(errors="replace")[-8000:]
    return output


@pytest.mark.parametrize("stage", [name for name in STAGES if name != "types"])
def test_stage(results: Path, series: str, stage: str) -> None:
    text = ended(results, stage).read_text()
    assert stage == "doctor" or re.search(r"\b[1-9]\d* passed", text), text[-8000:]
    for line in text.splitlines():
        if line.startswith("SKIPPED ["):
            warnings.warn(f"Linux {series}, stage {stage}: {line}", stacklevel=1)


@pytest.mark.parametrize("series", [SERIES[0]], indirect=True)
@pytest.mark.parametrize("stage", ["types"])
def test_every_program_compiles_with_the_kernels_own_types(results: Path, stage: str, tmp_path: Path) -> None:
    types = run(["bpftool", "btf", "dump", "file", str(ended(results, stage)), "format", "c"])
    (tmp_path / "vmlinux.h").write_text(types)
    for name in build.names():
        build.check_types(name, tmp_path)
