# SPDX-License-Identifier: Apache-2.0
"""The setsockopt hook of the host. Without it, programs cannot declare their flows to the kernel."""

from __future__ import annotations

import logging

from sluice.dataplane.sockopt import SocketHook
from sluice.policy.errors import EnvironmentLacking

log = logging.getLogger(__name__)


class FlowHook:
    """Keeps a hook attached on this machine: another agent's, or its own if there is no other."""

    def __init__(self, use_bpf: bool = True) -> None:
        self._hook = SocketHook() if use_bpf else None
        self.problem = "" if use_bpf else "programs cannot declare flows: BPF is switched off (--no-bpf)"
        """Why programs cannot declare flows; empty if they can."""

    @property
    def available(self) -> bool:
        """Whether programs on this machine can declare flows."""
        return not self.problem

    def ensure(self) -> None:
        """Attach the hook if no agent of this machine has it attached now."""
        if self._hook is None:
            return
        try:
            self._hook.ensure()
        except EnvironmentLacking as lacking:
            self._note(f"programs cannot declare flows: {lacking}")
        else:
            self._note("")

    def close(self) -> None:
        """Detach this agent's hook. A second call does nothing."""
        if self._hook is not None:
            self._hook.close()

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
