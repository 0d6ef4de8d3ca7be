# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from tools.prose_mirror.passages import Kind
from tools.prose_mirror.source import passages_of_comments, passages_of_docstrings, passages_of_file


def comments(text: str, language: str) -> list[tuple[int, str]]:
    return [(passage.first_line, passage.text) for passage in passages_of_comments(text, language)]


def test_line_comments_below_each_other_are_one_text() -> None:
    text = "# One\n# and two.\nx = 1\n    # Inside.\n# Outside.\n"
    assert comments(text, "python") == [(1, "One\nand two."), (4, "Inside."), (5, "Outside.")]


def test_a_comment_behind_code_stands_alone_but_goes_on_below() -> None:
    text = "a = 1  # bytes\nb = 2  # packets,\n       # without ACKs\n"
    assert comments(text, "python") == [(1, "bytes"), (2, "packets,\nwithout ACKs")]


@pytest.mark.parametrize(
    ("text", "language", "expected"),
    [
        ('char *s = "/* no */"; /* Yes. */\n', "c", [(1, "Yes.")]),
        ("/*\n * One\n * two.\n *\n * Three.\n */\n", "c", [(2, "One\ntwo."), (5, "Three.")]),
        ("/** Kept. */\n/* Apart. */\n", "c", [(1, "Kept."), (2, "Apart.")]),
        ("#define X 1 /* Why. */\n#include <a.h>\n", "c", [(1, "Why.")]),
        (
            "int x = 1'000; // A cost\n               // in ns.\n/// Doc.\n",
            "cpp",
            [(1, "A cost\nin ns."), (3, "Doc.")],
        ),
        ('const a = "// no"; // yes\n/* and\n   this */\n', "javascript", [(1, "yes"), (2, "and\nthis")]),
        ('a = "# no" # yes\n', "toml", [(1, "yes")]),
        ("all: # not a target\n\techo\n", "make", [(1, "not a target")]),
    ],
)
def test_comments_by_language(text: str, language: str, expected: list[tuple[int, str]]) -> None:
    assert comments(text, language) == expected


@pytest.mark.parametrize(
    "text",
    [
        "#!/bin/bash\n",
        "# SPDX-FileType: SOURCE\n",
        "x = 1  # noqa: E402\n",
        "y = 2  # type: ignore[x]\n",
    ],
)
def test_directives_are_no_prose(text: str) -> None:
    assert comments(text, "python") == []


def test_docstrings_of_modules_functions_and_attributes() -> None:
    text = (
        '"""Module."""\n\nX = 1\n"""Of X."""\n\n'
        'def f():\n    """First.\n\n    Second\n    line.\n    """\n    return "no"\n'
    )
    found = [(passage.first_line, passage.text) for passage in passages_of_docstrings(text, "a.py")]
    assert found == [(1, "Module."), (4, "Of X."), (7, "First."), (9, "Second\nline.")]


def test_a_file_has_its_passages_in_order(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text('# Why.\nX = 1\n"""What."""\n# Again.\n')
    assert [(passage.kind, passage.text) for passage in passages_of_file(path)] == [
        (Kind.COMMENT, "Why."),
        (Kind.DOCSTRING, "What."),
        (Kind.COMMENT, "Again."),
    ]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("page.md", "# Title\n", ["Title"]),
        ("tool", "#!/bin/bash\n# Why.\n", ["Why."]),
        ("script", '#!/usr/bin/env python3\n"""What."""\n', ["What."]),
        ("Makefile", "# Why.\n", ["Why."]),
        ("table.json", '{"a": "# no"}', []),
        ("words", "# no program\n", []),
    ],
)
def test_the_language_follows_from_the_name_or_the_first_line(
    tmp_path: Path, name: str, text: str, expected: list[str]
) -> None:
    (tmp_path / name).write_text(text)
    assert [passage.text for passage in passages_of_file(tmp_path / name)] == expected
