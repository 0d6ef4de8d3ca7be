# SPDX-License-Identifier: Apache-2.0
"""A running Sluice with several controllers that share the switches, and cuts between its parts."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from experiments.checks.random_faults.management import Site
from experiments.checks.random_faults.relay import Relay
from sluice.policy.network.graph import Topology
from sluice.policy.workload.scenario import Scenario
from sluice.runs.services import Process, controller_argv
from sluice.runs.stack import Stack
from sluice.runtime.process import spawn
from sluice.runtime.wait import wait_until

START_S = 60.0


class SharedStack(Stack):
    """Made by `start_shared`. Every switch connects to every controller, through the relay."""

    site: Site
    relay: Relay
    numbers: Mapping[str, int]
    """Controller → its number."""
    own_ends: int
    """How often controllers that were taken down had ended or hung by themselves, or did not end in order."""
    _held: ExitStack

    @classmethod
    def start_shared(cls, scenario: Scenario, topology: Topology, out: Path, controllers: int) -> SharedStack:
        out.mkdir(parents=True, exist_ok=True)
        meeting = Path(tempfile.mkdtemp(prefix="sluice-"))
        with ExitStack() as held:
            site = Site.start(meeting)
            held.callback(site.stop)
            stack = cls(scenario, topology, out, meeting, None, False, site.store_url)
            stack.site, stack.own_ends = site, 0
            stack.numbers = {f"controller-{n}": n for n in range(1, controllers + 1)}
            stack.relay = held.enter_context(
                Relay({name: (stack.door(name), stack.own_socket(name)) for name in stack.numbers})
            )
            stack._held = held.pop_all()
        try:
            stack._start()
        except BaseException:
            stack.stop()
            raise
        return stack

    def door(self, name: str) -> Path:
        """The socket for switches."""
        return self.meeting / f"to-{name}.sock"

    def own_socket(self, name: str) -> Path:
        return self.meeting / f"{name}.sock"

    def _testbed_settings(self) -> Mapping[str, Any]:
        return {
            **super()._testbed_settings(),
            "controller": [f"unix:{self.door(name)}" for name in self.numbers],
        }

    def start_controller(self) -> None:
        for name in self.numbers:
            self.bring_up(name)

    def bring_up(self, name: str) -> None:
        self.services.start(name, partial(self._spawn_shared, name))

    def bring_back(self, name: str) -> None:
        """Start a controller, and wait until switches can connect to it."""
        self.own_socket(name).unlink(missing_ok=True)
        self.bring_up(name)

        def listens() -> bool:
            self.check()
            return self.own_socket(name).exists()

        wait_until(listens, f"{name} listens", timeout_s=START_S)

    def take_down(self, name: str, *, kill: bool) -> None:
        """End a controller, which stays away until `bring_back`."""
        service = self.services[name]
        self.own_ends += service.restarts
        if kill:
            os.kill(service.process.pid, signal.SIGKILL)
        self.services.stop(name)
        if not kill:
            self.own_ends += service.process.returncode != 0

    def _spawn_shared(self, name: str, env: Mapping[str, str]) -> Process:
        number = self.numbers[name]
        argv = [*controller_argv(self.site.store_url_of(number), self.own_socket(name)), "--share"]
        return spawn(self.site.on_machine(number, argv), log_file=self._log(name), env=env)

    def stop(self) -> None:
        try:
            super().stop()
        finally:
            self._held.close()
