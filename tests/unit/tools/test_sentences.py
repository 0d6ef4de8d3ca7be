# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tools.prose_mirror.markdown import passages_of_page
from tools.prose_mirror.sentences import MOST_WORDS, Sentence, sentences_of


def sentences(text: str) -> list[Sentence]:
    return sentences_of(passages_of_page(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("It takes 0.5 s (e.g. here) by Bai et al. and vs. no one.", None),
        ('He says "stop." It stops.', ['He says "stop."', "It stops."]),
        ("(In brackets.) After.", ["(In brackets.)", "After."]),
        ("`a.b` runs. `c` waits.", ["`a.b` runs.", "`c` waits."]),
        ("os-ken parses. os-ken writes.", ["os-ken parses.", "os-ken writes."]),
        ("1, 2, ... n of them", None),
        ("No end\nhere", ["No end here"]),
        ("See https://a.b/c.d. Then go.", None),
    ],
)
def test_where_sentences_end(text: str, expected: list[str] | None) -> None:
    assert [sentence.text for sentence in sentences(text)] == (expected or [text])


def test_a_sentence_has_its_line_and_its_words() -> None:
    text = "A first one. The second\nhas `code of four words` – and 10 % more.\n"
    assert sentences(text) == [
        Sentence(1, "A first one.", 3),
        Sentence(1, "The second has `code of four words` – and 10 % more.", 7),
    ]


def test_a_short_label_is_no_sentence() -> None:
    assert sentences("# A title\n\n| head | It ends. |\n|---|---|\n| cell | |\n") == [
        Sentence(3, "It ends.", 2)
    ]


def test_a_long_label_is_one() -> None:
    (sentence,) = sentences("# " + "word " * (MOST_WORDS + 1))
    assert sentence.long


def test_a_sentence_is_long_above_the_limit() -> None:
    exactly, above = sentences("word " * MOST_WORDS + "\n\n" + "word " * (MOST_WORDS + 1))
    assert (exactly.long, above.long) == (False, True)
