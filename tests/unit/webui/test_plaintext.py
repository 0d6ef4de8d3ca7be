# SPDX-License-Identifier: Apache-2.0
"""Plain text beyond the loopback needs a word."""

from __future__ import annotations

import pytest

from sluice.cli import main
from sluice.commands.demo import check_plaintext
from sluice.policy.errors import FieldError
from sluice.runtime.settings.kinds import is_loopback
from sluice.webui.options import WebOptions, problems

BEYOND = ["0.0.0.0:8080", "192.0.2.1:8080", "[::]:8080", "[2001:db8::1]:8080", "hub:8080", "localhost.evil:1"]


@pytest.mark.parametrize("address", BEYOND)
def test_an_address_beyond_the_loopback_needs_the_word(address: str) -> None:
    (problem,) = problems(WebOptions(listen=("127.0.0.1:8080", address)))
    assert problem.field == "listen"
    assert problem.problem.startswith(f"{address} is reachable from other machines")
    assert "--plaintext-beyond-loopback" in problem.problem
    assert "TLS" in problem.problem
    assert not list(problems(WebOptions(listen=(address,), plaintext_beyond_loopback=True)))


@pytest.mark.parametrize(
    "address", ["127.0.0.1:8080", "127.9.9.9:1", "[::1]:8080", "localhost:8080", "LOCALHOST:1"]
)
def test_the_loopback_needs_none(address: str) -> None:
    assert is_loopback(address)
    assert not list(problems(WebOptions(listen=(address,))))
    check_plaintext(address, allowed=False)


def test_the_process_refuses_with_the_flag_as_the_user_wrote_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--listen", "0.0.0.0:0", "--store", "sqlite://", "--check"]) == 2
    assert "--listen: 0.0.0.0:0 is reachable from other machines" in capsys.readouterr().err


def test_the_demonstration_refuses_it_too() -> None:
    with pytest.raises(FieldError, match="--plaintext-beyond-loopback"):
        check_plaintext("0.0.0.0:8080", allowed=False)
    check_plaintext("0.0.0.0:8080", allowed=True)
