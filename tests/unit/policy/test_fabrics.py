# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from policy.desired import Policy
from policy.errors import FieldError
from policy.fabrics import SIMULATOR, TESTBED, check_fabric, missing, refusal
from policy.schemes import SCHEMES, Need


def policy(scheme, **fields):
    return Policy.from_document({"scheme": scheme, **fields})


@pytest.mark.parametrize("name", SCHEMES)
def test_missing__the_simulator_can_do_everything(name):
    assert missing(policy(name), SIMULATOR) == ()


def test_missing__on_the_testbed_these_and_no_others():
    lacking = {name: missing(policy(name), TESTBED) for name in SCHEMES}
    assert {name: set(needs) for name, needs in lacking.items() if needs} == {
        "fish": {Need.FLOW_QUEUES, Need.SHARES},
        "sluice": {Need.FLOW_QUEUES, Need.SHARES},
        "d3": {Need.EXPLICIT_RATES},
        "pfabric": {Need.SHORTEST_FIRST},
    }


def test_refusal__names_the_scheme_what_it_needs_and_both_remedies():
    text = refusal(policy("fish"), TESTBED)
    assert text is not None
    assert text.startswith(
        "fish needs flow queues and bandwidth shares, which the testbed's ports do not have"
    )
    assert text.endswith("--on simulator, or do without: flow_queues = false, shares = []")


def test_refusal__offers_no_field_where_none_helps():
    text = refusal(policy("pfabric"), TESTBED)
    assert text is not None
    assert text.endswith("--on simulator")


def test_check_fabric__what_does_without_is_let_through():
    check_fabric(policy("sluice", flow_queues=False, shares=[]), TESTBED)


@pytest.mark.parametrize(
    "asked",
    [
        policy("dctcp", flow_queues=True),
        policy("pias", queues=2, thresholds=["10KB"], shares=[0.9, 0.1]),
        policy("dctcp", mark_at_core="250pkt"),
        policy("d3"),
    ],
)
def test_check_fabric__the_refusal_is_an_error_about_the_scheme(asked):
    with pytest.raises(FieldError, match=f"scheme: {asked.scheme} needs .*--on simulator") as caught:
        check_fabric(asked, TESTBED)
    assert caught.value.field == "scheme"
