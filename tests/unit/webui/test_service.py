# SPDX-License-Identifier: Apache-2.0
"""The settings of the web process about alerts, as its file has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.policy.alert_rules import DEFAULT_RULES
from sluice.policy.errors import SluiceError
from sluice.webui.service import SERVICE, WebOptions

TOKEN = 'webhook_token_file = "/dev/null"\n'


def loaded(folder: Path, text: str) -> WebOptions:
    file = folder / "web.toml"
    file.write_text(text)
    return SERVICE.load(file, {}, {})[0]


def test_alerts__the_file_replaces_the_default_rules(tmp_path: Path) -> None:
    assert loaded(tmp_path, "").alerts == DEFAULT_RULES
    assert loaded(tmp_path, "alerts = []").alerts == ()
    options = loaded(tmp_path, '[[alerts]]\nname = "x"\nfigure = "fct-p99"\nlimit = "5ms"\nfor = "1min"\n')
    assert [(rule.name, rule.limit_value, rule.for_s) for rule in options.alerts] == [("x", 5_000, 60)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('alerts = [{ name = "x", figure = "fct-p99" }]', r"web.toml: alerts\[0\].limit: is missing"),
        (
            'alerts = [{ name = "x", figure = "agent-down", four = "1s" }]',
            r"alerts\[0\].four: is not a key here",
        ),
        ("alerts = 5", "web.toml: alerts: must be a list"),
        ('webhook = "ftp://x"', "web.toml: webhook: must be http://HOST:PORT/PATH"),
        (TOKEN, "webhook_token_file: there is no webhook"),
        (f'webhook = "http://192.0.2.1/x"\n{TOKEN}', "anyone on the way reads the token"),
        (f'webhook = "http://h_1/x"\n{TOKEN}', "anyone on the way reads the token"),
    ],
)
def test_alerts__a_wrong_file_is_refused_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SluiceError, match=problem):
        loaded(tmp_path, text)


@pytest.mark.parametrize("url", ["https://192.0.2.1/x", "http://127.0.0.1:9/x", "http://[::1]/x"])
def test_webhook__a_token_needs_tls_or_the_loopback(tmp_path: Path, url: str) -> None:
    assert loaded(tmp_path, f'webhook = "{url}"\n{TOKEN}').webhook == url
