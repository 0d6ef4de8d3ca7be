# SPDX-License-Identifier: Apache-2.0
"""The Markdown of a transcript."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from tools.transcript.shell import ends_command

_FIRST_LINES = 12
_LAST_LINES = 48
"""A long output keeps these lines. Most results stand at the end."""


@dataclass(frozen=True)
class Step:
    """One block of the page, and what it did."""

    at_s: float
    """Seconds from the beginning of the page to the end of the block."""
    what: str
    """run, start or save NAME."""
    block: str
    text: str
    code: int = 0


def markdown(title: str, page: str, machine: str, commit: str, cpu_s: float, steps: Sequence[Step]) -> str:
    """Return the page of a transcript."""
    parts = [
        f"# Transcript: {title}",
        f"For readers who want to know what to expect. `tools.transcript` did what [the page]({page}) says, and wrote "
        f"this down. The page began with {machine}. Nothing of Sluice was there but the commit `{commit}`.",
        f"All commands together took **{clock(steps[-1].at_s)}** (minutes:seconds) and {cpu_s:.0f} s of CPU time. A "
        "reader's reading and typing is not in it. If the load average is above the number of cores, other work of the "
        "machine made it slower.",
    ]
    return "\n\n".join([*parts, *map(_step, steps)]) + "\n"


def _step(step: Step) -> str:
    if step.what.startswith("save"):
        return f"**{clock(step.at_s)}** The reader saves `{step.what.removeprefix('save ')}`."
    block = "\n".join(f"$ {line}" if first else line for first, line in _prompted(step.block))
    ended = "starts, and runs on" if step.what == "start" else f"ends with exit code {step.code}"
    text = f"\n{shortened(step.text)}" if step.text.strip() else ""
    return f"**{clock(step.at_s)}** This {ended}:\n\n```text\n{block}{text}\n```"


def _prompted(block: str) -> list[tuple[bool, str]]:
    """Return the lines, each with whether a command begins there."""
    lines, command = [], ""
    for line in block.splitlines():
        lines.append((not command, line))
        command += line
        command = "" if ends_command(command) else f"{command}\n"
    return lines


def shortened(text: str) -> str:
    """Return an output without repeated lines and colours, and without the middle of a long one."""
    lines = [line.split("\r")[-1].rstrip() for line in text.strip("\n").split("\n")]
    lines = [line for line, _ in groupby(lines)]
    left_out = len(lines) - _FIRST_LINES - _LAST_LINES
    if left_out > 0:
        lines = [*lines[:_FIRST_LINES], f"… {left_out} lines …", *lines[-_LAST_LINES:]]
    return "\n".join(lines)


def clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
