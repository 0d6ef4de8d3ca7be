# SPDX-License-Identifier: Apache-2.0
"""The log of a socket's windows, beside all other storage that this project keeps in a socket."""

from contextlib import suppress
from pathlib import Path

from sluice.dataplane.congestion import register_congestion_control
from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.tagger import Tagger
from sluice.dataplane.watch import Watch
from sluice.dataplane.windows import WindowLog
from sluice.hostagent.sockets import declare
from tests.kernel.conftest import V4, Pair
from tests.kernel.controls import private_build, private_name
from tests.kernel.lab import dial, listen

OPTMEM = Path("/proc/sys/net/core/optmem_max")
"""Of each network namespace since Linux 6.8. Before, the machine has one, and this is its default."""
OPTMEM_BEFORE_LINUX_6_8 = 20_480


def test_all_storage_fits_a_socket_of_an_older_kernel(pair: Pair, hook: Attachment, watch: Watch) -> None:
    """Declared flows that wait for acknowledgements are there, too."""
    name = private_name()
    with (
        register_congestion_control(name, private_build()),
        WindowLog() as log,
        Tagger() as tagger,
        listen(pair.b, V4["b"], name) as listener,
    ):
        with pair.a:
            tagger.attach("eth0")
            if OPTMEM.exists():
                OPTMEM.write_text(str(OPTMEM_BEFORE_LINUX_6_8))
        client, server = dial(pair.a, listener, name)
        client.setblocking(False)
        for _ in range(3):
            declare(client, size_bytes=1_000_000)
            client.send(bytes(20_000))
        log.follow(client)
        while log.read(client) == []:
            with suppress(BlockingIOError):  # more, because all before may be acknowledged already
                client.send(bytes(20_000))
            assert server.recv(1 << 16)
        client.close()
        server.close()
