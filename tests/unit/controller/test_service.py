# SPDX-License-Identifier: Apache-2.0


from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sluice.controller.service import check_store
from sluice.policy.errors import EnvironmentLacking
from sluice.store.engine import open_store
from sluice.store.schema import SCHEMA_VERSION, schema_versions


def test_check_store__a_store_of_a_later_version_is_named_before_anything_starts(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    engine = open_store(url)
    with engine.begin() as connection:
        connection.execute(schema_versions.insert().values(version=SCHEMA_VERSION + 1, sluice="9.1.0"))
    engine.dispose()
    with pytest.raises(EnvironmentLacking, match=r"of Sluice 9\.1\.0"):
        check_store(url)
    check_store(f"sqlite:///{tmp_path}/not-yet/store.db")  # a store that is away may come back


pytestmark = pytest.mark.slow


def test_the_module_that_uses_the_most_of_os_ken_can_be_imported_first() -> None:
    program = [sys.executable, "-c", "import sluice.controller.connection"]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
