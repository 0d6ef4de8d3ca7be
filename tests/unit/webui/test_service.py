# SPDX-License-Identifier: Apache-2.0
"""The settings of the web process, as its file has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.policy.errors import SluiceError
from sluice.webui.service import SERVICE


@pytest.mark.parametrize("key", ["alerts", "webhook", "webhook_token_file"])
def test_a_removed_setting_is_refused_with_what_replaces_it(tmp_path: Path, key: str) -> None:
    file = tmp_path / "web.toml"
    file.write_text(f'{key} = "x"\n')
    with pytest.raises(SluiceError, match=rf"web.toml: {key}: is no setting any more: Prometheus judges"):
        SERVICE.load(file, {}, {})
    variable = f"SLUICE_WEB_{key.upper()}"
    with pytest.raises(SluiceError, match=rf"{variable}: is no setting any more: Prometheus judges"):
        SERVICE.load(None, {}, {variable: "x"})
