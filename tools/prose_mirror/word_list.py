# SPDX-License-Identifier: Apache-2.0
"""Words that a reader stumbles over, and what to write instead (CONTRIBUTING.md, "How we write")."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tools.prose_mirror.passages import Passage


@dataclass(frozen=True)
class Entry:
    """One word or turn of phrase, with all its forms."""

    name: str
    pattern: re.Pattern[str]
    instead: str


@dataclass(frozen=True)
class Found:
    """An entry where it occurs."""

    line: int
    entry: Entry
    text: str


def _entry(name: str, pattern: str, instead: str) -> Entry:
    across_lines = pattern.replace(" ", r"\s+")
    return Entry(name, re.compile(rf"\b(?:{across_lines})\b", re.IGNORECASE), instead)


WORD_LIST = (
    _entry("anew", r"anew|afresh", "again"),
    _entry("told", r"told|untold|tells?", "declared; is informed; reports; distinguishes"),
    _entry("nobody", r"nobody(?:'s)?", "no one; no host"),
    _entry("everybody", r"everybody(?:'s)?|somebody(?:'s)?", "every host; some program: name it"),
    _entry("whoever", r"whoever|whichever|whatever|wherever", "any host that; any; all"),
    _entry("he", r"whom|he|his|him|himself", "which; it: a flow or a process is a thing"),
    _entry("shall", r"shall", "must"),
    _entry("is to", r"(?:is|are|was|were|has|have|had) to", "must"),
    _entry("lies", r"lie|lies|lied|liars?", "sends wrong tags"),
    _entry("sent again", r"sen[dt]s? again", "retransmitted"),
    _entry("time of the machine", r"time of the (?:machine|processor)", "CPU time"),
    _entry("beside", r"beside", "next to; besides; during"),
    _entry(
        "what … of which", r"what\b[^.;:]{0,80}?\b(?:of|by|to|from|for|with) wh(?:ich|om)", "name the thing"
    ),
    _entry("hence", r"hence|thence|whence|thus", "so; therefore: because comes first"),
    _entry("thereof", r"(?:there|here|where)(?:of|in|by|upon|to|with|from)", "of it; in it: name the thing"),
    _entry("lest", r"lest|albeit|ere|naught|nought|amid|upon", "so that … not; although; before; on"),
    _entry("else", r"(?:or|would|could|will|is|are) else|else (?:the|a|an|it|they)", "otherwise; or"),
    _entry("leisure", r"leisure|heeds?|heeded", "name the limit; respects"),
    _entry("under way", r"under way", "in flight; running; during"),
    _entry("begun", r"begun|beforehand|meanwhile", "started; in advance; in the meantime"),
    _entry("wanted", r"wanted", "requested; required"),
    _entry("stands", r"stands?|stood", "is; stays; is written"),
    _entry("goes on", r"goes on|go on|went on|gone on|going on", "continues"),
    _entry("no more", r"(?:is|are|and|but|does|do) no more|once more", "no longer; only; again"),
    _entry("Should it …", r"(?-i:Should (?:a|an|the|it|they|two|no|\w+s))", "If …"),
)
"""In the order in which the mirror prints them."""


def listed_words(passages: Iterable[Passage]) -> Iterator[Found]:
    """Yield each occurrence of an entry of the list, code and addresses left out."""
    for passage in passages:
        for entry in WORD_LIST:
            for match in entry.pattern.finditer(passage.masked):
                text = " ".join(passage.text[match.start() : match.end()].split())
                yield Found(passage.line_of(match.start()), entry, text)
