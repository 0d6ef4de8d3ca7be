# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import argparse

import pytest

from sluice.store.retention import FOR_EVER, Retention
from sluice.webui.options import add_retention, retention, retention_argv


def parsed(*argv: str) -> Retention:
    parser = argparse.ArgumentParser()
    add_retention(parser)
    return retention(parser.parse_args(argv))


def test_retention__defaults_and_for_ever() -> None:
    assert parsed() == Retention()
    assert parsed("--keep-flows", "forever").flows_s is None
    assert parsed("--most-flows", "5").most_flows == 5


@pytest.mark.parametrize("kept", [Retention(), FOR_EVER, Retention(10.5, 60.0, None, 3)])
def test_retention__another_process_is_told_the_same(kept: Retention) -> None:
    assert parsed(*retention_argv(kept)) == kept


def test_retention__another_time_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--keep-flows", "1w")
    assert 'must be a time such as 90s, 10min, 12h or 7d, or "forever", not "1w"' in capsys.readouterr().err
