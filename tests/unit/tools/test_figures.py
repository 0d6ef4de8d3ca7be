# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tools.prose_mirror.figures import Reading, by_kind, read, together
from tools.prose_mirror.markdown import passages_of_page, passages_of_source
from tools.prose_mirror.passages import Kind
from tools.prose_mirror.sentences import Sentence


def reading(*lengths: int) -> Reading:
    return Reading("a", [Sentence(1, "…", words) for words in lengths], [])


@pytest.mark.parametrize(("share", "expected"), [(0.5, 10), (0.95, 19), (1, 20)])
def test_percentiles_are_by_nearest_rank(share: float, expected: int) -> None:
    assert reading(*range(20, 0, -1)).words_at(share) == expected


def test_no_sentence_has_no_words() -> None:
    assert reading().words_at(0.5) == 0


def test_findings_are_long_sentences_and_listed_words() -> None:
    text = "Nobody waits. " + "word " * 26
    assert read("a", list(passages_of_page(text))).findings == 2


def test_together_adds_up() -> None:
    both = together("both", [reading(1, 2), reading(30)])
    assert (both.name, both.words_at(1), len(both.sentences)) == ("both", 30, 3)


def test_by_kind_has_each_kind_over_all_files(tmp_path: Path) -> None:
    files = {
        tmp_path / "a.md": list(passages_of_page("One. Two.")),
        tmp_path / "b.py": list(passages_of_source("Three.", Kind.COMMENT, 1)),
    }
    counts = {kind.name: len(kind.sentences) for kind in by_kind(files)}
    assert counts == {"all markdown": 2, "all docstring": 0, "all comment": 1}
