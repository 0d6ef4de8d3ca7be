# SPDX-License-Identifier: Apache-2.0
"""The lists of what runs in a guest and what does not, against the tests that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.stages import SKIPPED, STAGES, script, skips

TIER = Path(__file__).parents[3] / "kernel"


def test_every_file_of_the_kernel_tier_runs_in_a_guest_or_is_skipped_by_name() -> None:
    run = {
        Path(word).name for command in STAGES.values() for word in command if word.startswith("tests/kernel/")
    }
    skipped = {name for name in SKIPPED if "::" not in name}
    assert run | skipped == {path.name for path in TIER.glob("test_*.py")}
    assert not run & skipped


@pytest.mark.parametrize("name", [name for name in SKIPPED if "::" in name])
def test_a_test_that_is_skipped_by_name_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert f"def {function}(" in (TIER / file).read_text()


def test_script__runs_the_chosen_stages_alone() -> None:
    text = script(Path("/out"), ["doctor", "userspace"])
    assert "doctor --quick > /out/doctor.out" in text
    assert "echo $? > /out/userspace.code; echo $SECONDS > /out/userspace.seconds" in text
    assert "/out/loads" not in text


def test_skips__are_the_lines_of_the_summary() -> None:
    line = "SKIPPED [1] tests/kernels/inside/test_switch.py:46: the machine was too slow to fill the link"
    output = (
        f"test_switch.py::test_shares SKIPPED (too slow) [ 43%]\n=== summary ===\n{line}\n=== 1 skipped ===\n"
    )
    assert skips(output) == [line]
