# SPDX-License-Identifier: Apache-2.0
"""Two port agents on one machine."""

from __future__ import annotations

import uuid

import pytest

from sluice.hostagent.port.service import sole_agent
from sluice.policy.errors import EnvironmentLacking


def test_a_second_agent_of_the_same_switches_is_refused_while_the_first_runs() -> None:
    database = f"tcp:{uuid.uuid4()}"
    with sole_agent(database):
        with pytest.raises(EnvironmentLacking, match="end it first"), sole_agent(database):
            pass
        with sole_agent(f"{database}/other"):
            pass
    with sole_agent(database):
        pass
