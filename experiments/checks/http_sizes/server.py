# SPDX-License-Identifier: Apache-2.0
"""A web server on asyncio streams: GET /BYTES returns that many bytes.

Usage: python server.py ADDRESS PORT declared|plain
"""

from __future__ import annotations

import asyncio
import sys

from sluice.hostagent.sockets import http


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


async def main(address: str, port: str, mode: str) -> None:
    start = http.start_server if mode == "declared" else asyncio.start_server
    async with await start(serve, address, int(port)) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
