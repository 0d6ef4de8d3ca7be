# SPDX-License-Identifier: Apache-2.0
"""Threads for views: each kind of request has its own, and a bounded queue before them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from webui.channel import Channel

MOST_WAITING = 500
"""Requests that wait for a thread of a pool. A further one is told to come back."""
STREAM_PATH = "/api/v1/events"
AGENTS, LOCAL_AGENTS, HEALTH, STREAMS = "agents", "local-agents", "health", "streams"
CHANGES, READS = "changes", "reads"
_THREADS = {AGENTS: 8, LOCAL_AGENTS: 8, HEALTH: 2, STREAMS: 1, CHANGES: 16}
"""One thread opens the streams: when all dashboards come back at once, the other requests get their turn."""

T = TypeVar("T")


class Busy(Exception):
    """Too many requests of this kind wait already."""


class _Pool:
    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self.executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self.waiting = 0


class Pools:
    """The pools of a worker process. One thread, the loop's, uses it."""

    def __init__(self, reads: int) -> None:
        """`reads`: threads for requests that change nothing."""
        self._pools = {name: _Pool(name, threads) for name, threads in {**_THREADS, READS: reads}.items()}

    @property
    def is_busy(self) -> bool:
        return any(pool.waiting for pool in self._pools.values())

    async def run(
        self,
        environ: Mapping[str, Any],
        channel: Channel,
        view: Callable[[], T],
        abandoned: Callable[[], None],
    ) -> T:
        """Run the view in a thread for its kind of request. Raises Busy.

        `abandoned` runs after the view if the caller has not waited for its end.
        """
        pool = self._pools[kind_of(environ["REQUEST_METHOD"], environ["PATH_INFO"], channel)]
        if pool.waiting >= MOST_WAITING:
            raise Busy(
                f"{pool.waiting} requests of this kind ({pool.name}) wait already; try again in a moment"
            )
        pool.waiting += 1
        future = pool.executor.submit(view)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            future.add_done_callback(lambda _: abandoned())
            raise
        finally:
            pool.waiting -= 1

    def close(self) -> None:
        """Begin no further view."""
        for pool in self._pools.values():
            pool.executor.shutdown(wait=False, cancel_futures=True)


def kind_of(method: str, path: str, channel: Channel) -> str:
    """Return the name of the pool for a request."""
    if channel.is_agents:
        return AGENTS
    if method == "POST" and (path.startswith("/api/v1/agents/") or path == "/api/v1/flows"):
        return AGENTS if channel.is_trusted else LOCAL_AGENTS
    if path == "/api/v1/health":
        return HEALTH
    if path == STREAM_PATH:
        return STREAMS
    return READS if method in ("GET", "HEAD", "OPTIONS") else CHANGES
