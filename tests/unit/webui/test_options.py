# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse

import pytest

from store.retention import FOR_EVER, Retention
from webui.options import add_retention, duration_s, retention, retention_argv


def parsed(*argv: str) -> Retention:
    parser = argparse.ArgumentParser()
    add_retention(parser)
    return retention(parser.parse_args(argv))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1.5min", 90), ("12h", 43_200), ("7 d", 604_800)]
)
def test_duration(text: str, seconds: int) -> None:
    assert duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "-1s", "1e3s", "1w", "nan s", "9999999999999s"])
def test_duration__anything_else_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        duration_s(text)


def test_retention__defaults_and_for_ever() -> None:
    assert parsed() == Retention()
    assert parsed("--keep-flows", "forever").flows_s is None
    assert parsed("--most-flows", "5").most_flows == 5


@pytest.mark.parametrize("kept", [Retention(), FOR_EVER, Retention(10.5, 60.0, None, 3)])
def test_retention__another_process_is_told_the_same(kept: Retention) -> None:
    assert parsed(*retention_argv(kept)) == kept
