# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from tools.prose_mirror.markdown import passages_of_page, passages_of_source
from tools.prose_mirror.passages import Kind


def page(text: str) -> list[tuple[int, str]]:
    return [(passage.first_line, passage.text) for passage in passages_of_page(text)]


def source(text: str) -> list[tuple[int, str]]:
    return [(passage.first_line, passage.text) for passage in passages_of_source(text, Kind.COMMENT, 10)]


def test_a_paragraph_is_one_passage_and_each_list_item_its_own() -> None:
    text = "One line\nand another.\n\n- an item\n  with two lines\n- a second\n\n1. a step\n"
    assert page(text) == [
        (1, "One line\nand another."),
        (4, "an item\nwith two lines"),
        (6, "a second"),
        (8, "a step"),
    ]


def test_code_blocks_and_raw_html_have_no_passage() -> None:
    assert page("```\nnobody runs this\n```\n\n    nobody indented\n\n<p>nobody\n</p>\n\nText.\n") == [
        (10, "Text.")
    ]


def test_headings_and_cells_are_labels() -> None:
    passages = list(passages_of_page("# Title\n\n| a | b |\n|---|---|\n| c | It ends. |\n\nText.\n"))
    assert [(passage.text, passage.label) for passage in passages] == [
        ("Title", True),
        ("a", True),
        ("b", True),
        ("c", True),
        ("It ends.", True),
        ("Text.", False),
    ]
    assert passages[3].first_line == 5


def test_code_and_addresses_are_one_word_of_the_same_length() -> None:
    (passage,) = passages_of_page("See `a b. c` and [the page](http://x.y/z), or https://x.y/told.html now.")
    assert passage.text == "See `a b. c` and the page, or https://x.y/told.html now."
    assert passage.masked == "See Xxxxxxxx and the page, or Xxxxxxxxxxxxxxxxxxxxx now."


def test_emphasis_is_not_text() -> None:
    assert page("**One policy.** It is *pure*.") == [(1, "One policy. It is pure.")]


def test_line_of_an_offset_counts_line_ends() -> None:
    (passage,) = passages_of_page("\nFirst.\nSecond `x`\nthird.\n")
    assert [passage.line_of(passage.text.index(word)) for word in ("First", "Second", "third")] == [2, 3, 4]


def test_drawings_and_formulas_of_a_comment_are_left_out() -> None:
    text = "The law.\n  window = window / 2\n\nA picture:\n ┌────┐\n │    │\n--------\nAfter it."
    assert source(text) == [(10, "The law."), (13, "A picture:"), (17, "After it.")]


def test_rows_of_aligned_columns_are_apart() -> None:
    assert source("The files.\nrun.py    one run\nsweep.py  many runs") == [
        (10, "The files."),
        (11, "run.py    one run"),
        (12, "sweep.py  many runs"),
    ]


def test_angle_brackets_and_rulers_of_a_comment_are_text() -> None:
    assert source("The <token> of a request\n===") == [(10, "The <token> of a request\n===")]
