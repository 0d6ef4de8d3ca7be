# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from sluice.policy.errors import FieldError
from sluice.policy.wire.access import KINDS, Token
from sluice.policy.wire.agents import HEARTBEATS

TOKEN = Token("web1", "host", "a-secret-of-24-characters", 1_800_000_000, "ab" * 32)


def test_text__is_one_word_that_parse_reads() -> None:
    assert TOKEN.text().startswith("sluice-enrol-")
    assert len(TOKEN.text().split()) == 1
    assert Token.parse(f"  {TOKEN.text()}\n") == TOKEN


@pytest.mark.parametrize(
    "text",
    ["", "sluice-enrol-", "sluice-enrol-!!", TOKEN.text()[:-9], TOKEN.text()[8:], "sluice-enrol-W10", "é"],
)
def test_parse__says_what_is_wrong_and_never_shows_the_secret(text: str) -> None:
    with pytest.raises(FieldError, match="--enrol: is not an enrolment token: copy all of it") as caught:
        Token.parse(text)
    assert TOKEN.secret not in str(caught.value)
    assert len(text) < 20 or text[20:] not in str(caught.value)


def test_kinds__are_those_of_heartbeats() -> None:
    assert tuple(HEARTBEATS) == KINDS
