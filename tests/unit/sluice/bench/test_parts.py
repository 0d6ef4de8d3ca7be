# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.bench.parts import PARTS
from sluice.cli import main


def test_help__names_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["bench", "--help"])
    told = capsys.readouterr().out
    assert not [part for part in PARTS if part not in told]
