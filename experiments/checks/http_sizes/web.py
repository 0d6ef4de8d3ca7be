# SPDX-License-Identifier: Apache-2.0
"""A web server and its client, both on asyncio streams: programs for the hosts of a testbed.

`web.py serve ADDRESS PORT declared|plain` answers GET /BYTES with that many bytes.

`web.py fetch` fetches a list of responses, each at its time, and prints how long each took. Input: JSON, a list of
[start in s, address, bytes]. Output: JSON, a list of seconds in the same order. A connection carries one response after
the other. If all connections to a server are busy, the client opens another one.
"""

import asyncio
import json
import sys
import time

from sluice.hostagent.sockets import http

PORT = 8080
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Client:
    def __init__(self) -> None:
        self._idle: dict[str, list[Connection]] = {}
        self._began_s = time.monotonic()

    async def fetch(self, start_s: float, address: str, size_bytes: int) -> float:
        """Return the seconds from the request to the last byte of the response."""
        await asyncio.sleep(self._began_s + start_s - time.monotonic())
        asked_s = time.monotonic()
        idle = self._idle.setdefault(address, [])
        reader, writer = idle.pop() if idle else await asyncio.open_connection(address, PORT)
        writer.write(f"GET /{size_bytes} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(size_bytes)
        idle.append((reader, writer))
        return time.monotonic() - asked_s


async def fetch_all(requests: list[tuple[float, str, int]]) -> list[float]:
    client = Client()
    return await asyncio.gather(*(client.fetch(*request) for request in requests))


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while request := await _request(reader):
        size = int(request.split()[1].lstrip(b"/"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size))
        await writer.drain()
    writer.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


async def serve_for_ever(address: str, port: str, mode: str) -> None:
    start = http.start_server if mode == "declared" else asyncio.start_server
    async with await start(serve, address, int(port)) as server:
        await server.serve_forever()


def main(what: str, *words: str) -> None:
    if what == "serve":
        asyncio.run(serve_for_ever(*words))
    else:
        print(json.dumps(asyncio.run(fetch_all(json.load(sys.stdin)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
