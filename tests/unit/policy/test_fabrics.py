# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest

from sluice.policy.controls import Need
from sluice.policy.errors import FieldError
from sluice.policy.fabrics import SIMULATOR, TESTBED, check_fabric, missing, refusal
from sluice.policy.schema.desired import Policy
from sluice.policy.schemes import SCHEMES


def policy(scheme: str, **fields: Any) -> Policy:
    return Policy.from_document({"scheme": scheme, **fields})


@pytest.mark.parametrize("name", SCHEMES)
def test_missing__the_simulator_can_do_everything(name: str) -> None:
    assert missing(policy(name), SIMULATOR) == ()


def test_missing__on_the_testbed_these_and_no_others() -> None:
    lacking = {name: missing(policy(name), TESTBED) for name in SCHEMES}
    assert {name: set(needs) for name, needs in lacking.items() if needs} == {
        "d3": {Need.EXPLICIT_RATES},
        "pfabric": {Need.SHORTEST_FIRST},
    }


def test_refusal__names_the_scheme_what_it_needs_and_the_remedy() -> None:
    text = refusal(policy("d3"), TESTBED)
    assert text is not None
    assert text.startswith("d3 needs explicit rates from the switches, which the testbed's ports do not have")
    assert text.endswith("--on simulator")


@pytest.mark.parametrize(
    "asked",
    [
        policy("dctcp", flow_queues=True),
        policy("pias", queues=2, thresholds=["10KB"], shares=[0.9, 0.1]),
        policy("dctcp", mark_at_core="250pkt"),
    ],
)
def test_check_fabric__both_fabrics_carry_it_out(asked: Policy) -> None:
    for fabric in (TESTBED, SIMULATOR):
        check_fabric(asked, fabric)


@pytest.mark.parametrize("asked", [policy("d3"), policy("pfabric")])
def test_check_fabric__the_refusal_is_an_error_about_the_scheme(asked: Policy) -> None:
    with pytest.raises(FieldError, match=f"scheme: {asked.scheme} needs .*--on simulator") as caught:
        check_fabric(asked, TESTBED)
    assert caught.value.field == "scheme"
