# SPDX-License-Identifier: Apache-2.0
"""Figures of a file's prose, and of many files together."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.prose_mirror.passages import Kind, Passage
from tools.prose_mirror.sentences import Sentence, sentences_of
from tools.prose_mirror.word_list import Found, listed_words


@dataclass(frozen=True)
class Reading:
    """The sentences and listed words of a file, or of one kind of passage in many files."""

    name: str
    sentences: Sequence[Sentence]
    found: Sequence[Found]

    @property
    def long_sentences(self) -> list[Sentence]:
        return [sentence for sentence in self.sentences if sentence.long]

    @property
    def findings(self) -> int:
        """The number of long sentences and listed words."""
        return len(self.long_sentences) + len(self.found)

    def words_at(self, share: float) -> int:
        """Return the words of the sentence below which this share of them stays (nearest rank; 1: the longest)."""
        lengths = sorted(sentence.words for sentence in self.sentences)
        return lengths[max(math.ceil(share * len(lengths)) - 1, 0)] if lengths else 0

    def by_entry(self) -> Counter[str]:
        """Return how often each entry of the word list occurs."""
        return Counter(found.entry.name for found in self.found)


def read(name: str, passages: Sequence[Passage]) -> Reading:
    """Return the figures of a file's passages."""
    return Reading(name, sentences_of(passages), list(listed_words(passages)))


def together(name: str, readings: Iterable[Reading]) -> Reading:
    """Return many readings as one."""
    several = list(readings)
    return Reading(
        name,
        [sentence for reading in several for sentence in reading.sentences],
        [found for reading in several for found in reading.found],
    )


def by_kind(files: dict[Path, list[Passage]]) -> list[Reading]:
    """Return a reading of each kind of passage over all files."""
    passages = [passage for several in files.values() for passage in several]
    return [read(f"all {kind}", [passage for passage in passages if passage.kind is kind]) for kind in Kind]
