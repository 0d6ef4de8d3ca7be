# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tools.prose_mirror.markdown import passages_of_page
from tools.prose_mirror.word_list import WORD_LIST, listed_words


def names(text: str) -> list[str]:
    return [found.entry.name for found in listed_words(passages_of_page(text))]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("It begins anew.", "anew"),
        ("Deadlines that it is told.", "told"),
        ("Nobody waits.", "nobody"),
        ("Somebody waits.", "everybody"),
        ("Whoever waits.", "whoever"),
        ("It shall wait.", "shall"),
        ("It is to wait.", "is to"),
        ("A host lies.", "lies"),
        ("It was sent\nagain.", "sent again"),
        ("The time of the machine.", "time of the machine"),
        ("A flow beside it.", "beside"),
        ("What a flow of which it knows carries.", "what … of which"),
        ("Hence it waits.", "hence"),
        ("The end thereof.", "thereof"),
        ("It would else wait.", "else"),
        ("A flow that he sends.", "he"),
        ("The flows under way.", "under way"),
        ("A flow has begun.", "begun"),
        ("The rule stands.", "stands"),
        ("Traffic goes on.", "goes on"),
        ("It is no more.", "no more"),
        ("Should a queue vanish, it ends.", "Should it …"),
    ],
)
def test_each_entry_is_found(text: str, name: str) -> None:
    assert names(text) == [name]


@pytest.mark.parametrize(
    "text",
    [
        "Besides, it waits.",
        "The toll is paid.",
        "See `nobody` here.",
        "A thunder of a wholesale.",
        "It should a priori wait.",
    ],
)
def test_other_words_are_not(text: str) -> None:
    assert names(text) == []


def test_a_find_has_its_line_and_its_words() -> None:
    (found,) = listed_words(passages_of_page("First.\nIt was sent\nagain.\n"))
    assert (found.line, found.text, found.entry.instead) == (2, "sent again", "retransmitted")


def test_names_are_unique_and_each_says_what_to_write() -> None:
    assert len({entry.name for entry in WORD_LIST}) == len(WORD_LIST)
    assert all(entry.instead for entry in WORD_LIST)
