# SPDX-License-Identifier: Apache-2.0
"""The sentences of a passage, and how many words each has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tools.prose_mirror.passages import Passage

MOST_WORDS = 25
"""A sentence with more is long."""

ABBREVIATIONS = {
    "e.g.",
    "i.e.",
    "al.",
    "vs.",
    "cf.",
    "fig.",
    "figs.",
    "eq.",
    "sec.",
    "no.",
    "approx.",
    "ca.",
    "resp.",
}
END = re.compile(r"(?<!\.)[.!?][\"'”’)\]*_]*(?=\s|$)")
WORD = re.compile(r"\S*[^\W_]\S*")


@dataclass(frozen=True)
class Sentence:
    """One sentence of a file."""

    line: int
    text: str
    words: int

    @property
    def long(self) -> bool:
        return self.words > MOST_WORDS


def sentences_of(passages: Iterable[Passage]) -> list[Sentence]:
    """Return the sentences of the passages, in order.

    A label (a heading, a table cell) counts only if it ends with a full stop or is too long for a sentence.
    Otherwise short labels would lower the median.
    """
    return [sentence for passage in passages for sentence in _sentences_of(passage)]


def _sentences_of(passage: Passage) -> Iterator[Sentence]:
    for begin, end in _spans(passage.masked):
        begin += len(passage.masked[begin:end]) - len(passage.masked[begin:end].lstrip())
        masked = passage.masked[begin:end]
        sentence = Sentence(
            passage.line_of(begin), " ".join(passage.text[begin:end].split()), len(WORD.findall(masked))
        )
        if sentence.words and (not passage.label or sentence.long or END.search(masked)):
            yield sentence


def _spans(masked: str) -> Iterator[tuple[int, int]]:
    begin = 0
    for match in END.finditer(masked):
        if not _is_abbreviation(masked[begin : match.end()]):
            yield begin, match.end()
            begin = match.end()
    yield begin, len(masked)


def _is_abbreviation(sentence: str) -> bool:
    return sentence.split()[-1].lower().lstrip("\"'(") in ABBREVIATIONS
