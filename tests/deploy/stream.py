# SPDX-License-Identifier: Apache-2.0
"""One TCP connection that must not end: `stream.py serve PORT`, `stream.py use HOST PORT FOLDER`.

`use` sends a line every 20 ms and reads it back. It ends with 0 when FOLDER has the file "stop", and prints the number
of lines and the longest wait for an answer (s). It ends with another code if the connection breaks. It needs Python.
"""

import socket
import socketserver
import sys
import time
from pathlib import Path


class Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(4096):
            self.request.sendall(data)


def serve(port: int) -> None:
    with socketserver.ThreadingTCPServer(("0.0.0.0", port), Echo) as server:
        server.serve_forever()


def use(host: str, port: int, folder: Path) -> None:
    lines, longest_s = 0, 0.0
    with socket.create_connection((host, port), timeout=60) as connection:
        (folder / "started").touch()
        while not (folder / "stop").exists():
            began = time.monotonic()
            connection.sendall(b"x" * 100)
            left = 100
            while left:
                data = connection.recv(left)
                if not data:
                    raise ConnectionError("the other end has closed the connection")
                left -= len(data)
            lines, longest_s = lines + 1, max(longest_s, time.monotonic() - began)
            time.sleep(0.02)
    print(lines, round(longest_s, 3))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        use(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
