# SPDX-License-Identifier: Apache-2.0
"""An asyncio server over HTTP/1.1 with persistent connections.

GET /BYTES/MILLISECONDS returns that many bytes, and declares them to the kernel with that deadline.

Usage: python rpc_server.py ADDRESS PORT
"""

from __future__ import annotations

import asyncio
import socket
import sys

from sluice.hostagent.sockets import declare


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    sock: socket.socket = writer.get_extra_info("socket")
    while head := await read_head(reader):
        _, size, milliseconds = head.split()[1].decode().split("/")
        declare(sock, size_bytes=int(size), deadline_s=int(milliseconds) / 1000)
        writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode() + bytes(int(size)))
        await writer.drain()
    writer.close()


async def read_head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def main(address: str, port: str) -> None:
    async with await asyncio.start_server(serve, address, int(port)) as server:
        await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
