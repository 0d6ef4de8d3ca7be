# SPDX-License-Identifier: Apache-2.0
"""The channel of an agent to the web process, and the second thread of a host's agent.

The thread sends heartbeats, applies the settings that answer them, and delivers flow records.

Everything that may block (HTTP, loading BPF) happens here, so the traffic's thread never waits for it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sluice.hostagent.spool import Spool
from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import read
from sluice.policy.wire.access import Holder
from sluice.policy.wire.agents import AgentSettings, Heartbeat, HostHeartbeat, heartbeat_document
from sluice.runtime.http_client import TIMEOUT_S, Answer, HttpClient, ServerAway, is_tls

if TYPE_CHECKING:
    from sluice.runtime.agent_identity import Identity

log = logging.getLogger(__name__)

PATH = "/api/v1/flows"
HEARTBEAT_S = 1.0
"""Records go with it, because each request costs the web process some two milliseconds, however few they are."""
COLLECT_S = 0.5
"""The pause between two calls of `collect`."""
FIRST_RETRY_S, LAST_RETRY_S = 0.25, 2.0
DRAIN_S = 2.5
"""How long a stopping agent tries to deliver records. The others stay in the spool."""
_REFUSED = (400, 409, 413, 422)
"""A record is wrong. Other refusals (404, 429 …) concern the service and may end, so the courier tries again."""
_NOT_OURS = "other-agent"
"""Code of the 403 for a flow that has no end at this host. Any other 403 concerns the agent's certificate."""

Post = Callable[[str, bytes], Answer]


class Channel:
    """A channel over a Unix socket, over TCP, or over TLS with the agent's certificate."""

    def __init__(self, name: str, web: HttpClient, identity: Identity | None = None) -> None:
        self.web = web
        self._path, self._identity = f"/api/v1/agents/{name}", identity

    @classmethod
    def open(
        cls, target: str, holder: Holder, folder: Path, enrol: str | None, timeout_s: float = TIMEOUT_S
    ) -> Channel:
        """Return the channel to an address. Raises SluiceError.

        `folder` has the agent's certificate if the address has TLS. `enrol`: the token for it, or None.
        """
        identity = None
        if is_tls(target) or enrol:
            # Importing the library of certificates takes a fifth of a start's CPU time.
            from sluice.runtime.agent_identity import identity_for

            identity = identity_for(target, folder, holder, enrol)
        web = HttpClient(target, timeout_s, tls=identity.context if identity else None)
        return cls(holder.name, web, identity)

    def ask(self, heartbeat: Heartbeat) -> AgentSettings:
        """Send a heartbeat and return the settings that answer it. Raises ServerAway."""
        answer = self.web.post(self._path, json.dumps(heartbeat_document(heartbeat)).encode())
        if not answer.ok:
            raise ServerAway(f"it answers {answer.status} to the heartbeat: {answer.problem}")
        document = answer.json()
        try:
            return read(AgentSettings, document)
        except FieldError as error:  # the web process has another version, and may be replaced soon
            raise ServerAway(
                f"its settings do not fit this agent ({error}): run web process and agent of the same version"
            ) from None

    def renew(self) -> None:
        """Renew the certificate if that is due. Raises ServerAway."""
        if self._identity is not None and self._identity.renewal_due():
            self._identity.renew(self.web)
            log.info("the certificate of this agent was renewed")


class Courier:
    """Delivers one spool in batches, at least once. `post` sends a request, as HttpClient.post does.

    A record that the web process refuses does not hold up the others.
    """

    def __init__(self, spool: Spool, post: Post) -> None:
        self._spool = spool
        self._post = post
        self.refused = 0
        """Number of records in quarantine because the web process refused them."""

    def deliver(self) -> bool:
        """Deliver one batch. Returns False if nothing waits. Raises ServerAway."""
        batch = self._spool.next_batch()
        if batch is None:
            return False
        self._deliver(batch.lines)
        self._spool.acknowledge(batch)
        return True

    def _deliver(self, lines: Sequence[bytes]) -> None:
        """Send the records. Halve a refused batch until the wrong record is alone, then put that one in quarantine."""
        answer = self._post(PATH, b"[" + b",".join(lines) + b"]")
        if answer.ok:
            return
        is_wrong_record = answer.status in _REFUSED or (answer.status == 403 and answer.code == _NOT_OURS)
        if not is_wrong_record:
            raise ServerAway(f"it answers {answer.status} to {PATH}: {answer.problem}")
        if len(lines) == 1:
            self._spool.quarantine(lines[0], f"{answer.status} {answer.body[:500].decode(errors='replace')}")
            self.refused += 1
            return
        middle = len(lines) // 2
        self._deliver(lines[:middle])
        self._deliver(lines[middle:])


class Reporter(threading.Thread):
    """The reporting thread. `start` starts it, `finish` ends it. All callbacks run in this thread."""

    def __init__(
        self,
        channel: Channel,
        couriers: Sequence[Courier],
        status: Callable[[], HostHeartbeat],
        apply: Callable[[AgentSettings], None],
        failed: Callable[[], None],
        collect: Callable[[], None] = lambda: None,
    ) -> None:
        """`status` returns the heartbeat, `apply` takes the settings, `failed` reports that the thread died.

        `collect` is called twice a second and more, whether the web process answers or not.
        """
        super().__init__(name="reporter", daemon=True)
        self._channel = channel
        self._couriers = couriers
        self._status = status
        self._apply = apply
        self._failed = failed
        self._collect = collect
        self._stopping = threading.Event()
        self._retry_s = FIRST_RETRY_S
        self._is_away = False
        self.turned_s = time.monotonic()
        """When the thread last began a round of its work, on the monotonic clock."""
        self.error: BaseException | None = None
        """The error that ended the thread; `failed` has been called with it set."""

    def run(self) -> None:
        try:
            self._serve()
            self._drain()
        except BaseException as error:  # Agent.run raises it in the main thread
            self.error = error
            self._failed()

    def finish(self) -> None:
        """Deliver records for at most DRAIN_S, then end the thread."""
        self._stopping.set()
        self.join()
        self._channel.web.close()

    def _serve(self) -> None:
        next_heartbeat, delivers = time.monotonic(), False
        while not self._stopping.is_set():
            self.turned_s = time.monotonic()
            self._collect()
            try:
                if time.monotonic() >= next_heartbeat:
                    self._heartbeat()
                    next_heartbeat, delivers = time.monotonic() + HEARTBEAT_S, True
                while delivers and self._deliver() and not self._stopping.is_set():
                    self.turned_s = time.monotonic()
                delivers = False
                self._retry_s = FIRST_RETRY_S
                if self._is_away:
                    log.info("the web process serves this agent again")
                    self._is_away = False
                self._stopping.wait(min(COLLECT_S, max(0.0, next_heartbeat - time.monotonic())))
            except ServerAway as away:
                if not self._is_away:
                    log.warning(
                        "the web process does not serve this agent (%s): keeping the last settings, retrying",
                        away,
                    )
                    self._is_away = True
                self._stopping.wait(self._retry_s)
                self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)

    def _deliver(self) -> bool:
        """Deliver a batch of each spool. Returns False if nothing waits. Raises ServerAway."""
        delivered = [courier.deliver() for courier in self._couriers]
        return any(delivered)

    def _drain(self) -> None:
        self._collect()
        give_up = time.monotonic() + DRAIN_S
        while time.monotonic() < give_up:
            try:
                if not self._deliver():
                    self._heartbeat()
                    return
            except ServerAway:
                time.sleep(FIRST_RETRY_S)

    def _heartbeat(self) -> None:
        self._apply(self._channel.ask(self._status()))
        self._channel.renew()
