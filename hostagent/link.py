# SPDX-License-Identifier: Apache-2.0
"""The queues of the host's own link. Without them, its packets wait in one queue, whatever their tag."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from sluice.dataplane.link_queues import LinkQueues, QdiscKind, remove
from sluice.policy.errors import SluiceError
from sluice.policy.tags import UNTAGGED
from sluice.runtime.command import CommandFailed

log = logging.getLogger(__name__)

_DSCPS = 64


class HostLink:
    """The qdisc of one interface of the current network namespace.

    Without a place for it, the agent changes no qdisc. It only removes the queues of a killed agent that had a place.
    """

    def __init__(self, interface: str, at: str | None) -> None:
        """`at`: "root", or a class of a qdisc that exists. None: the link stays as it is."""
        self._interface = interface
        self._queues = LinkQueues(interface, at) if at is not None else None
        self._kind: QdiscKind | None = None
        self.problem = ""
        """Why there are no queues although the agent should make them; empty if there are."""

    @property
    def name(self) -> str:
        """The kind of the qdisc; empty if there is none."""
        return self._kind.name if self._kind else ""

    def ensure(self) -> None:
        """Make the queues if they are not there. A problem is noted, because packets leave all the same."""
        if self._queues is None:
            return
        try:
            self._kind = self._queues.make()
        except (SluiceError, CommandFailed) as error:
            self._kind = None
            self._note(str(error))
        else:
            self._note("")

    def begin(self) -> None:
        """Make the queues, or remove those that a killed agent has left."""
        if self._queues is not None:
            self.ensure()
        elif self._remove():
            log.warning("removed the queues that an earlier agent left on %s", self._interface)

    def priorities(self, queue_of_tag: Sequence[int]) -> tuple[int, ...]:
        """Return the priority of a packet by DSCP; empty if the link is one queue."""
        if self._kind is None or not queue_of_tag:
            return ()
        tagged = [self._kind.priorities[queue] for queue in queue_of_tag]
        return (*tagged, *[tagged[UNTAGGED]] * (_DSCPS - len(tagged)))

    def end(self) -> None:
        """Remove the queues. A second call does nothing."""
        if self._queues is not None:
            self._queues.close()
        if self._kind is not None:
            self._kind = None
            self._remove()

    def _remove(self) -> bool:
        try:
            return remove(self._interface)
        except (SluiceError, CommandFailed) as error:
            log.warning("%s", error)
            return False

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("%s", problem)
        self.problem = problem
