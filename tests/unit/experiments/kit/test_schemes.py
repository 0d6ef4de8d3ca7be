# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from experiments.kit.schemes import schemes_of_testbed
from sluice.policy.schemes import SCHEMES


def test_schemes_of_testbed__all_but_those_that_no_switch_can_carry_out() -> None:
    assert set(SCHEMES) - set(schemes_of_testbed()) == {"d3", "pfabric"}
