# SPDX-License-Identifier: Apache-2.0
"""The setsockopt hook of the host: attached, kept attached, taken away; without it programs' deadlines stay unknown."""

from __future__ import annotations

import logging

from dataplane.sockopt import SocketHook
from policy.errors import EnvironmentLacking

log = logging.getLogger(__name__)


class FlowHook:
    """Sees to it that programs can tell of their flows, be it through the hook of another agent of this machine."""

    def __init__(self, use_bpf: bool = True) -> None:
        self._hook = SocketHook() if use_bpf else None
        self.problem = "" if use_bpf else "programs cannot tell of their flows: BPF is switched off"
        """Why programs cannot tell of their flows; empty when they can."""

    @property
    def serves(self) -> bool:
        return not self.problem

    def keep(self) -> None:
        """Attach it, also when the process that had it attached has ended."""
        if self._hook is None:
            return
        try:
            self._hook.ensure()
        except EnvironmentLacking as lacking:
            self._note(f"programs cannot tell of their flows: {lacking}")
        else:
            self._note("")

    def close(self) -> None:
        """Take ours away. Idempotent."""
        if self._hook is not None:
            self._hook.close()

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
