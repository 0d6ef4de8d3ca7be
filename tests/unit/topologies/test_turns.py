# SPDX-License-Identifier: Apache-2.0
"""The library that ovs-vswitchd loads, in a child process that calls the C library as ovs-vswitchd does."""

import os
import subprocess
import sys
from textwrap import dedent

from sluice import topologies
from sluice.topologies import supervisor

PRELUDE = """
import ctypes, os, select, socket, threading, time
libc = ctypes.CDLL(None, use_errno=True)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
libc.malloc_usable_size.argtypes = [ctypes.c_void_p]
listener = socket.create_server(("127.0.0.1", 0))
listener.setblocking(False)

def look(timeout_ms=0):
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    return poll.poll(timeout_ms)

def accept():
    taken = libc.accept(listener.fileno(), None, None)
    return taken if taken >= 0 else os.strerror(ctypes.get_errno())

def in_thread(work):
    found = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]
"""


def run(script: str, pause_ns: int = 0) -> list[str]:
    """Run a script with the library. Returns the words that it prints."""
    network = topologies.build("single", hosts=2)
    env = {**os.environ, **supervisor.cheap_turns(network), "SLUICE_PAUSE_NS": str(pause_ns)}
    argv = [sys.executable, "-c", PRELUDE + dedent(script)]
    return subprocess.run(argv, env=env, check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def test_a_connection_is_accepted_after_the_poll_that_reports_it() -> None:
    script = """
        look()
        client = socket.create_connection(listener.getsockname())
        print(accept())
        print(bool(look(-1)))
        print(accept() > 0)
    """
    assert run(script) == ["Resource temporarily unavailable", "True", "True"]


def test_only_the_last_poll_of_the_main_thread_that_asked_about_a_socket_keeps_it_from_being_read() -> None:
    script = """
        clients = [socket.create_connection(listener.getsockname())]
        print(accept() > 0)
        look()
        clients += [socket.create_connection(listener.getsockname()) for _ in range(2)]
        print(in_thread(accept) > 0)
        select.poll().poll(0)
        print(accept() > 0)
    """
    assert run(script) == ["True"] * 3


def test_datagrams_are_received_after_the_poll_that_reports_them() -> None:
    script = """
        listener = socket.socket(type=socket.SOCK_DGRAM)
        listener.bind(("127.0.0.1", 0))
        listener.setblocking(False)
        header = ctypes.create_string_buffer(64)
        look()
        socket.socket(type=socket.SOCK_DGRAM).sendto(b"", listener.getsockname())
        print(libc.recvmmsg(listener.fileno(), header, 1, 0, None))
        print(bool(look(-1)))
        print(libc.recvmmsg(listener.fileno(), header, 1, 0, None))
    """
    assert run(script) == ["-1", "True", "1"]


def test_the_main_thread_pauses_before_it_waits() -> None:
    script = """
        client = socket.create_connection(listener.getsockname())
        began = time.monotonic()
        print(bool(look(-1)), time.monotonic() - began >= 0.2)
    """
    assert run(script, pause_ns=200_000_000) == ["True True"]


def test_blocks_are_kept_and_are_as_large_as_asked() -> None:
    script = """
        sizes = [600, 1016, 1017, 3124, 25_146, 65_146, 200_000]
        blocks = [libc.malloc(size) for size in sizes]
        for block, size in zip(blocks, sizes):
            ctypes.memset(block, 1, size)
            libc.free(block)
        again = [libc.malloc(size) for size in sizes]
        print(again[3:6] == blocks[3:6])
        print(all(libc.malloc_usable_size(block) >= size for block, size in zip(again, sizes)))
        print(len(set(again)) == len(again))
    """
    assert run(script) == ["True", "True", "True"]


def test_more_blocks_than_are_kept_go_back_to_the_c_library() -> None:
    script = """
        sizes = [3124] * 1000 + [3636] * 1000
        for _ in range(3):
            blocks = [libc.malloc(size) for size in sizes]
            print(len(set(blocks)), all(map(libc.malloc_usable_size, blocks)))
            for block in blocks:
                libc.free(block)
    """
    assert run(script) == ["2000 True"] * 3
