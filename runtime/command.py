# SPDX-License-Identifier: Apache-2.0
"""The one way to run an external command to its end: log it, and raise with its output if it fails."""

import logging
import shlex
import subprocess
from collections.abc import Mapping, Sequence

from sluice.runtime.wait import patient

log = logging.getLogger(__name__)


class CommandFailed(RuntimeError):
    """A command ended with an error. The message holds the command, its exit code and its output."""

    def __init__(self, argv: Sequence[str], returncode: int, output: str) -> None:
        super().__init__(f"$ {shlex.join(argv)}\nexit code {returncode}: {output.strip() or '(no output)'}")
        self.returncode = returncode
        self.output = output


def run(
    argv: Sequence[str],
    *,
    stdin: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 300.0,
) -> str:
    """Run a command without a shell and return its standard output.

    Raises CommandFailed with standard error if the exit code is not zero, and subprocess.TimeoutExpired after
    `timeout_s`.
    """
    log.debug("$ %s", shlex.join(argv))
    done = subprocess.run(
        list(argv),
        input=stdin,
        env=env,
        capture_output=True,
        text=True,
        timeout=patient(timeout_s),
        check=False,
    )
    if done.returncode != 0:
        raise CommandFailed(argv, done.returncode, done.stderr or done.stdout)
    return done.stdout
