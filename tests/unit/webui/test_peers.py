# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket

import pytest

from webui.peers import uid_at_loopback, uid_at_unix_socket

NOBODY = 65_534


def test_unix_socket__the_user_who_connected() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert uid_at_unix_socket(ours) == os.geteuid()


@pytest.mark.parametrize(("family", "host"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
@pytest.mark.parametrize("user", [0, NOBODY])
def test_loopback__the_user_who_owns_the_other_end(
    family: socket.AddressFamily, host: str, user: int
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; run as root")
    with socket.create_server((host, 0), family=family) as listener:
        address = listener.getsockname()
        os.seteuid(user)
        try:
            client = socket.create_connection(address[:2])
        finally:
            os.seteuid(0)
        connection, peer = listener.accept()
        with client, connection:
            assert uid_at_loopback(peer[:2], address[:2]) == user
            assert uid_at_loopback((peer[0], 1), address[:2]) is None
