# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from tests.kernels.stages import SKIPPED, STAGES, script

KERNEL_TIER = Path(__file__).parents[3] / "kernel"


def test_every_file_of_the_kernel_tier_runs_in_the_guest_or_has_a_reason() -> None:
    run = {Path(word).name for word in STAGES["programs"] if word.startswith("tests/kernel/")}
    left_out = {name for name in SKIPPED if "::" not in name}
    assert not run & left_out
    assert run | left_out == {path.name for path in KERNEL_TIER.glob("test_*.py")}


def test_the_script_keeps_output_and_code_of_every_stage() -> None:
    text = script(Path("/results"))
    for name in STAGES:
        assert f"> /results/{name}.out" in text
        assert f"> /results/{name}.code" in text
