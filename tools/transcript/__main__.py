# SPDX-License-Identifier: Apache-2.0
"""Do what a page says, on a fresh Debian 12, and write a transcript with times. Needs root and mmdebstrap.

    python -m tools.transcript docs/tutorials/tour.md /tmp/tour.md

The blocks of the page with the orders run, run: background and save are done, from top to bottom (tests/kit/pages.py).
REPOSITORY names a bare copy of the repository's commit. The transcript is written also if a block fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.kit.pages import ROOT, Block, blocks
from tools.transcript.shell import Shell
from tools.transcript.text import Step, markdown

CLEAN_ROOT = Path(__file__).parent / "clean-root"
DEFAULT_FOLDER = Path("/var/tmp/sluice-transcript")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", type=Path, help="the page to follow")
    parser.add_argument("out", type=Path, help="the transcript to write")
    parser.add_argument(
        "--folder", type=Path, default=DEFAULT_FOLDER, help=f"of the fresh system (default: {DEFAULT_FOLDER})"
    )
    given = parser.parse_args()
    commit = prepare(given.folder)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    load = os.getloadavg()[0]
    steps = follow(blocks(given.page), [str(CLEAN_ROOT), "enter", str(given.folder)])
    cpu_s = _cpu_s(resource.getrusage(resource.RUSAGE_CHILDREN)) - _cpu_s(before)
    page = os.path.relpath(given.page, given.out.parent)
    title = given.page.read_text().splitlines()[0].removeprefix("# ")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(markdown(title, page, machine(load), commit, cpu_s, steps))
    failed = [step for step in steps if step.code]
    print(f"{given.out}: {len(steps)} steps, {steps[-1].at_s:.0f} s, {len(failed)} failed", file=sys.stderr)
    return 1 if failed else 0


def prepare(folder: Path) -> str:
    """Make the fresh system with a bare copy of this repository. Returns the short name of its commit."""
    subprocess.run([str(CLEAN_ROOT), "make", str(folder)], check=True)
    bare = folder / "root" / "srv" / "sluice.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", "--single-branch", str(ROOT), str(bare)], check=True)
    named = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(named, check=True, capture_output=True, text=True).stdout.strip()


def _cpu_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def machine(load: float) -> str:
    """Return what the fresh system is and runs on, in words. `load`: of the machine, before the page begins."""
    memory_gb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return (
        f"a fresh Debian 12 (git, make, curl and python3 installed; an empty home folder) on {os.cpu_count()} cores "
        f"with {memory_gb:.0f} GB under Linux {platform.release().split('-')[0]}. The load average of the machine was "
        f"{load:.1f} before"
    )


def follow(page: list[Block], shell_argv: list[str]) -> list[Step]:
    """Return the steps of the page, to the first one that fails."""
    steps: list[Step] = []
    begun = time.monotonic()
    with Shell(shell_argv) as shell:
        for block in page:
            code, text, what = 0, "", block.order
            if block.order == "save":
                shell.save(block.argument, block.text)
                what = f"save {block.argument}"
            elif block.order == "run" and block.argument == "background":
                shell.start(block.text)
                what = "start"
            elif block.order == "run":
                done = shell.run(block.text)
                code, text = done.code, done.text
            else:
                continue
            steps.append(Step(time.monotonic() - begun, what, block.text, text, code))
            print(f"{steps[-1].at_s:6.0f} s {what}: {block.text.splitlines()[0]}", file=sys.stderr)
            if code:
                print(text[-4000:], shell.started_text()[-4000:], sep="\n", file=sys.stderr)
                break
    return steps


if __name__ == "__main__":
    sys.exit(main())
