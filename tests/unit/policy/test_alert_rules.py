# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from typing import Any

import pytest

from sluice.policy.alert_rules import DEFAULT_RULES, AlertRule, Figure, rules_from, time_text
from sluice.policy.errors import FieldError

MISSES: dict[str, Any] = {"name": "m", "figure": "deadline-misses", "limit": 0.05}


def test_rules__the_defaults_are_allowed_and_survive_json() -> None:
    written = json.loads(json.dumps([rule.to_document() for rule in DEFAULT_RULES]))
    assert rules_from("alerts", written) == DEFAULT_RULES


def test_rules__units() -> None:
    (rule,) = rules_from(
        "alerts", [{"name": "f", "figure": "fct-p99", "limit": "50ms", "window": "2min", "for": "500ms"}]
    )
    assert (rule.limit_value, rule.window_s, rule.for_s) == (50_000, 120, 0.5)
    assert math.isnan(AlertRule("a", Figure.AGENT).limit_value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"limit": None},
            r"alerts\[0\].limit: is missing; for deadline-misses it must be a number from 0 to 1",
        ),
        ({"limit": 5}, r"alerts\[0\].limit: must be a number from 0 to 1, not 5"),
        ({"limit": "50ms"}, r"alerts\[0\].limit: must be a number"),
        ({"limit": True}, r"alerts\[0\].limit: must be a share"),
        ({"figure": "fct-p99"}, r"alerts\[0\].limit: 0.05 is not a quantity"),
        ({"figure": "agent-down"}, r"alerts\[0\].limit: the figure agent-down has no limit; omit limit"),
        ({"figure": "agent-dwn", "limit": None}, r"did you mean agent-down\?"),
        ({"name": "With Space"}, r"alerts\[0\].name: must be 1 to 40 small letters"),
        ({"window": "2h"}, r"alerts\[0\].window"),
        ({"window": "1000s"}, r"alerts\[0\].window: must be a duration from 1s to 900s"),
        ({"for": 30}, r"alerts\[0\].for"),
        ({"least_flows": 0}, r"alerts\[0\].least_flows"),
        ({"least_flow": 5}, r"did you mean least_flows\?"),
    ],
)
def test_rules__a_wrong_one_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(FieldError, match=message):
        rules_from("alerts", [MISSES | changes])


def test_rules__each_has_a_name_of_its_own() -> None:
    with pytest.raises(FieldError, match=r'alerts\[1\].name: "m" is also an earlier rule'):
        rules_from("alerts", [MISSES, MISSES])


@pytest.mark.parametrize(
    ("time_us", "text"),
    [(12.5, "12.5 us"), (50_000, "50 ms"), (1e6, "1 s"), (90e6, "90 s"), (300e6, "5 min")],
)
def test_time_text(time_us: float, text: str) -> None:
    assert time_text(time_us) == text
