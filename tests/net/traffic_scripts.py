# SPDX-License-Identifier: Apache-2.0
"""Scripts for hosts that send, answer and count tagged packets."""

from __future__ import annotations

SEND_TAGGED = """
import socket, sys
address, family, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
s = socket.socket(family, socket.SOCK_DGRAM)
for dscp in range(64):
    if family == socket.AF_INET6:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
    else:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    for _ in range(count):
        s.sendto(b"x" * 100, (address, 9))
"""

ECHO_SERVER = """
import socket, sys, threading
s = socket.create_server((sys.argv[1], 5001), family=socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET)
print("ready", flush=True)
while True:
    c, _ = s.accept()
    while c.recv(65536):
        pass
    c.close()
"""

TAGGED_FLOWS = """
import socket, sys
address, dscp, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
for _ in range(count):
    s = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    if ":" in address:
        s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, dscp << 2)
    else:
        s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
    s.connect((address, 5001))
    s.sendall(b"x")
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
    s.close()
"""

NUMBERED_STREAM = """
import socket, sys, time, pathlib
address, dscp, rate, stop = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), pathlib.Path(sys.argv[4])
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, dscp << 2)
sent, began = 0, time.monotonic()
while not stop.exists():
    while sent < (time.monotonic() - began) * rate:
        s.sendto(sent.to_bytes(8, "big"), (address, 5002)); sent += 1
    time.sleep(0.002)
s.sendto((1 << 63 | sent).to_bytes(8, "big"), (address, 5002))
print(sent)
"""

NUMBERED_SINK = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, 33, 8 << 20)  # SO_RCVBUFFORCE: a sink without the CPU loses nothing
s.bind((sys.argv[1], 5002))
print("ready", flush=True)
seen = set()
while True:
    number = int.from_bytes(s.recv(64), "big")
    if number >> 63:
        break
    seen.add(number)
print("received", len(seen), flush=True)
"""


GARBAGE = """
import os, socket, struct
def talk(data, read=False):
    s = socket.create_connection(("127.0.0.1", 6653)); s.sendall(data)
    return s
kept = [
    talk(os.urandom(4096)), talk(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"), talk(b""), talk(b"\\x04"),
    talk(struct.pack("!BBHI", 4, 0, 0, 1) * 100), talk(struct.pack("!BBHI", 4, 0, 8, 1) + bytes(64)),
    talk(struct.pack("!BBHI", 4, 19, 65535, 1)), talk(struct.pack("!BBHI", 1, 0, 8, 1)),
    talk(struct.pack("!BBHI", 4, 0, 8, 1) + struct.pack("!BBHI", 4, 19, 16, 2) + bytes(8)),
]
for s in kept:
    s.settimeout(300)
    try:
        while s.recv(65536): pass
    except ConnectionError: pass
print("all closed")
"""
