# SPDX-License-Identifier: Apache-2.0
"""A shell in which blocks of commands run one after the other."""

from __future__ import annotations

import shlex
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

_END = "\x1eend of block\x1e"
_END_OF_FILE = "END_OF_THE_SAVED_FILE"
_LOGS = "/tmp/background"
ENDS_WITHIN_S = 120


@dataclass(frozen=True)
class Done:
    """What a block has done."""

    text: str
    """What it printed."""
    code: int
    seconds: float


class Shell:
    """One bash, so that `cd` and `source` hold for the blocks that follow."""

    def __init__(self, argv: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._started = 0

    def run(self, block: str) -> Done:
        """Run a block to its end, or to the first command that fails."""
        assert self._process.stdout is not None
        begun = time.monotonic()
        self._write(f"{_joined(block)} < /dev/null 2>&1; printf '%s%d\\n' '{_END}' $?\n")
        lines: list[str] = []
        for line in self._process.stdout:
            before, end, code = line.partition(_END)
            lines.append(before)
            if end:
                return Done("".join(lines), int(code), time.monotonic() - begun)
        raise ChildProcessError(f"the shell ended in the block:\n{block}\n{''.join(lines)}")

    def start(self, block: str) -> None:
        """Start a block that runs until the shell ends."""
        self._started += 1
        self._write(f"{_joined(block)} < /dev/null > {_LOGS}-{self._started} 2>&1 &\n")

    def started_text(self) -> str:
        """Return what the started blocks have printed."""
        return self.run(f"cat {_LOGS}-*").text if self._started else ""

    def save(self, name: str, text: str) -> None:
        """Write a file into the current folder."""
        self._write(f"cat > '{name}' <<'{_END_OF_FILE}'\n{text}{_END_OF_FILE}\n")

    def _write(self, script: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(script)
        self._process.stdin.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self._write("jobs -p | xargs -r kill -TERM; wait; exit\n")
        self._process.communicate(timeout=ENDS_WITHIN_S)


def _joined(block: str) -> str:
    """Return the commands of a block, each only if the one before it has succeeded."""
    return "{ " + "\n} && { ".join(_commands(block)) + "\n}"


def _commands(block: str) -> Iterator[str]:
    """Yield the commands of a block, without comments between them."""
    begun = ""
    for line in block.replace("\\\n", "").splitlines():
        if not begun and (not line.strip() or line.startswith("#")):
            continue
        begun += line
        if ends_command(begun):
            yield begun
            begun = ""
        else:
            begun += "\n"
    if begun:
        yield begun


def ends_command(lines: str) -> bool:
    """Return whether a command ends here. It goes on after a backslash and in a quotation."""
    try:
        shlex.split(lines, comments=True)
    except ValueError:
        return False
    return True
