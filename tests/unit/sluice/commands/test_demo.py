# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket

import pytest

from policy.errors import SluiceError
from sluice.commands.demo import check_free


def test_check_free__an_address_in_use_is_an_error_with_its_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(SluiceError, match="choose another --listen"):
            check_free(address)
    check_free(address)


@pytest.mark.parametrize("listen", ["8080", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999"])
def test_check_free__no_address(listen: str) -> None:
    with pytest.raises(SluiceError):
        check_free(listen)
