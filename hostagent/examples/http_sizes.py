# SPDX-License-Identifier: Apache-2.0
"""An HTTP server whose responses declare their sizes by themselves: GET /BYTES returns that many bytes.

Usage: python hostagent/examples/http_sizes.py ADDRESS PORT
"""

import asyncio
import sys

from sluice.hostagent.sockets.http import start_server


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while head := await read_head(reader):
        size = int(head.split()[1].lstrip(b"/"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(bytes(size))
        await writer.drain()
    writer.close()


async def read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def main(address: str, port: str) -> None:
    async with await start_server(serve, address, int(port)) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
