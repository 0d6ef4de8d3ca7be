# SPDX-License-Identifier: Apache-2.0
"""The command tools/prose."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from runtime.command import CommandFailed, run
from tools.prose_mirror.figures import Reading, by_kind, read, together
from tools.prose_mirror.passages import Passage
from tools.prose_mirror.sentences import MOST_WORDS
from tools.prose_mirror.source import passages_of_file
from tools.prose_mirror.word_list import WORD_LIST

HEADINGS = ("sentences", "median", "95 %", "longest", f"over {MOST_WORDS}", "words")
NOTE = """\
Lengths are words per sentence: median, 95th percentile, longest. "words" counts the entries of the word list.
A code span or an address is one word. Code blocks, drawings and formulas are left out.
The end of a list item, of a table cell or of a comment ends its sentence.
A heading or a cell counts as a sentence only if it ends with a full stop or is long.
The worst file has the most long sentences and listed words."""


def main(argv: Sequence[str]) -> int:
    """Print the mirror. The exit code is 0 for any prose; 2 if a file cannot be read."""
    options = _options(argv)
    try:
        files = {path: passages_of_file(options.root / path) for path in _files(options)}
    except (OSError, SyntaxError, UnicodeDecodeError, CommandFailed) as error:
        print(f"tools/prose: {error}", file=sys.stderr)
        return 2
    readings = [read(str(path), passages) for path, passages in files.items() if passages]
    if options.sentences:
        _print_sentences(readings)
    elif options.words:
        _print_words(readings)
    elif options.json:
        print(json.dumps(_document(readings, files), indent=2))
    else:
        _print_mirror(readings, files, options.worst)
    return 0


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/prose",
        description="Print how the project's prose reads: sentence lengths and words to avoid, worst files first.",
        epilog=NOTE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "paths", nargs="*", type=Path, help="files or folders below the root; default: all that git tracks"
    )
    parser.add_argument(
        "--root", type=Path, default=Path.cwd(), help="the folder that paths start from; default: this one"
    )
    parser.add_argument(
        "--worst", type=int, default=20, metavar="N", help="how many files to print; default: 20"
    )
    parser.add_argument(
        "--sentences", type=Path, metavar="FILE", help="print FILE's long sentences with their lines"
    )
    parser.add_argument(
        "--words", type=Path, metavar="FILE", help="print FILE's listed words with their lines"
    )
    parser.add_argument("--json", action="store_true", help="print the figures of every file as JSON")
    return parser.parse_args(argv)


def _files(options: argparse.Namespace) -> list[Path]:
    """Return the files to read, relative to the root: git's if it is a work tree, otherwise all of the folder."""
    if one := options.sentences or options.words:
        return [one]
    chosen = options.paths or [Path()]
    tracked = _tracked(options.root)
    return [path for path in tracked if any(path == one or one in path.parents for one in chosen)]


def _tracked(root: Path) -> list[Path]:
    if (root / ".git").exists():
        names = run(["git", "-C", str(root), "ls-files", "-z"]).split("\0")
        return [Path(name) for name in names if name and (root / name).is_file()]
    return sorted(path.relative_to(root) for path in root.rglob("*") if path.is_file())


def _print_mirror(readings: list[Reading], files: dict[Path, list[Passage]], worst: int) -> None:
    ranked = sorted(readings, key=lambda reading: (reading.findings, reading.words_at(1)), reverse=True)
    totals = [*by_kind(files), together("all", readings)]
    _print_table("together", totals)
    print()
    _print_table(f"the worst {min(worst, len(ranked))} of {len(ranked)} files", ranked[:worst])
    print("\nword list")
    counts = totals[-1].by_entry()
    for entry in WORD_LIST:
        print(f"{counts[entry.name]:6}  {entry.name:20}  {entry.instead}")
    print(f"\n{NOTE}")


def _print_table(title: str, readings: Sequence[Reading]) -> None:
    width = max(len(title), *(len(reading.name) for reading in readings), 0)
    print(title.ljust(width) + _row(HEADINGS))
    for reading in readings:
        print(reading.name.ljust(width) + _row(_columns(reading).values()))


def _row(cells: Iterable[object]) -> str:
    return "".join(f"{cell!s:>11}" for cell in cells)


def _columns(reading: Reading) -> dict[str, int]:
    return {
        "sentences": len(reading.sentences),
        "median": reading.words_at(0.5),
        "p95": reading.words_at(0.95),
        "longest": reading.words_at(1),
        "long": len(reading.long_sentences),
        "words": len(reading.found),
    }


def _document(readings: list[Reading], files: dict[Path, list[Passage]]) -> dict[str, object]:
    totals = [*by_kind(files), together("all", readings)]
    return {
        "totals": {reading.name: {**_columns(reading), "by_entry": reading.by_entry()} for reading in totals},
        "files": {
            reading.name: {**_columns(reading), "by_entry": reading.by_entry()} for reading in readings
        },
    }


def _print_sentences(readings: list[Reading]) -> None:
    for reading in readings:
        for sentence in reading.long_sentences:
            print(f"{reading.name}:{sentence.line}: {sentence.words} words: {sentence.text}")


def _print_words(readings: list[Reading]) -> None:
    for reading in readings:
        for found in sorted(reading.found, key=lambda found: found.line):
            print(f"{reading.name}:{found.line}: {found.text} → {found.entry.instead}")
