# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from sqlalchemy import Engine

from sluice.store.lease import Deposed
from sluice.store.observed import add_event, newest_events
from sluice.webui.alerts.duty import LEASE_S, RENEW_S, Duty


def never(_: str) -> bool:
    return False


def test_duty__one_has_it_until_it_gives_it_back(engine: Engine) -> None:
    one, other = Duty(engine, "one", never), Duty(engine, "other", never)
    one.step(0.0)
    other.step(0.0)
    assert one.engine is not None
    for now_s in range(1, 60):
        one.step(now_s)
        other.step(now_s)
        assert other.engine is None
    one.release()
    other.step(60.0)
    assert other.engine is not None


def test_duty__another_takes_it_from_one_that_stands_still_and_its_late_writes_fail(engine: Engine) -> None:
    one, other = Duty(engine, "one", never), Duty(engine, "other", never)
    one.step(0.0)
    late = one.engine
    assert late is not None
    other.step(0.0)
    other.step(LEASE_S - 0.1)
    assert other.engine is None
    other.step(LEASE_S)
    assert other.engine is not None
    with pytest.raises(Deposed):
        add_event(late, "late")
    assert newest_events(engine, 1) == []
    one.step(LEASE_S + RENEW_S)
    assert one.engine is None


def test_duty__it_passes_at_once_from_a_process_that_has_ended(engine: Engine) -> None:
    one, other = Duty(engine, "one", never), Duty(engine, "other", lambda holder: holder == "one")
    one.step(0.0)
    other.step(0.1)
    assert other.engine is not None
