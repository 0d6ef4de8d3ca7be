# SPDX-License-Identifier: Apache-2.0
"""The passages of source files: comments by Pygments' lexers, Python's docstrings by its own parser."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pygments.lexers import get_lexer_by_name
from pygments.token import Comment

from tools.prose_mirror.markdown import passages_of_page, passages_of_source
from tools.prose_mirror.passages import Kind, Passage

LEXERS = {
    ".py": "python",
    ".c": "c",
    ".h": "c",
    ".cpp": "cpp",
    ".hpp": "cpp",
    ".js": "javascript",
    ".css": "css",
    ".toml": "toml",
    ".yml": "yaml",
    ".yaml": "yaml",
    "Makefile": "make",
    "Dockerfile": "docker",
    "Snakefile": "bash",
}
"""Suffix, or name of a file without one → the lexer of Pygments that knows its comments."""

DIRECTIVE = re.compile(r"SPDX-|!|\s*(noqa|type: ignore|pragma|ruff:|mypy:|clang-format|biome-|@ts-|eslint)")
MARKERS = re.compile(r"^(#+|//+[!<]?|/\*+[!<]?)[ \t]?")
CLOSING = re.compile(r"\s*\*+/\s*$")
CONTINUED = re.compile(r"^\s*\*(?: |$)")


@dataclass(frozen=True)
class _Comment:
    line: int
    column: int
    text: str
    alone: bool
    """Whether its first line holds nothing else."""

    @property
    def single(self) -> bool:
        return not self.text.startswith("/*")

    def continues(self, above: _Comment) -> bool:
        """Whether it continues a line comment right above."""
        same_place = self.line == above.line + 1 and self.column == above.column
        return self.alone and self.single and above.single and same_place


def passages_of_file(path: Path) -> list[Passage]:
    """Return the passages of a file, in the order of their lines; none if its language is unknown."""
    if path.suffix == ".md":
        return list(passages_of_page(path.read_text()))
    language = LEXERS.get(path.suffix or path.name) or _language_of_script(path)
    if language is None:
        return []
    text = path.read_text()
    found = list(passages_of_comments(text, language))
    if language == "python":
        found += passages_of_docstrings(text, path.name)
    return sorted(found, key=lambda passage: passage.first_line)


def passages_of_comments(text: str, language: str) -> Iterator[Passage]:
    """Yield the passages of a program's comments. Line comments below each other are one text."""
    group: list[_Comment] = []
    for comment in _comments(text, language):
        if group and not comment.continues(group[-1]):
            yield from _passages_of_group(group)
            group = []
        group.append(comment)
    yield from _passages_of_group(group)


def passages_of_docstrings(text: str, file_name: str) -> Iterator[Passage]:
    """Yield the passages of every string that is a statement: docstrings, also those of attributes.

    Raises SyntaxError, which names the file, if the text is not Python.
    """
    for node in ast.walk(ast.parse(text, file_name)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            yield from passages_of_source(_dedented(node.value.value), Kind.DOCSTRING, node.lineno)


def _comments(text: str, language: str) -> Iterator[_Comment]:
    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    for offset, token, value in lexer.get_tokens_unprocessed(text):
        if token not in Comment or token in Comment.Preproc or token in Comment.PreprocFile:
            continue
        text_of_it = value.rstrip("\n")
        if DIRECTIVE.match(MARKERS.sub("", text_of_it)) or not MARKERS.match(text_of_it):
            continue
        column = offset - (text.rfind("\n", 0, offset) + 1)
        alone = not text[offset - column : offset].strip()
        yield _Comment(text.count("\n", 0, offset) + 1, column, text_of_it, alone)


def _passages_of_group(group: list[_Comment]) -> Iterator[Passage]:
    if group:
        text = "\n".join(_without_markers(comment.text) for comment in group)
        yield from passages_of_source(_dedented(text), Kind.COMMENT, group[0].line)


def _without_markers(comment: str) -> str:
    first, *others = CLOSING.sub("", MARKERS.sub("", comment)).split("\n")
    return "\n".join([first, *(CONTINUED.sub("", line) for line in others)])


def _dedented(text: str) -> str:
    """Return the text without the indentation that its lines after the first have in common."""
    first, *others = text.expandtabs().split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in others if line.strip()), default=0)
    return "\n".join([first.lstrip(), *(line[margin:] for line in others)])


def _language_of_script(path: Path) -> str | None:
    if path.suffix:
        return None
    with path.open("rb") as file:
        first = file.readline()
    if not first.startswith(b"#!"):
        return None
    return "python" if b"python" in first else "bash"
