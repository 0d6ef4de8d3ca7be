# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from store.engine import open_store


@pytest.fixture
def engine(tmp_path):
    engine = open_store(f"sqlite:///{tmp_path}/store.db")
    yield engine
    engine.dispose()
