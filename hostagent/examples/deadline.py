# SPDX-License-Identifier: Apache-2.0
"""Send SIZE bytes that must arrive within MILLISECONDS.

Usage: python deadline.py HOST PORT SIZE MILLISECONDS
"""

import socket
import sys

from sluice.hostagent.sockets import DeadlineSocket, FlowQuenched, FlowState
from sluice.policy.errors import SluiceError


def print_phase(state: FlowState) -> None:
    print(f"{state.phase} after {state.acked_bytes} bytes", file=sys.stderr)


def main(host: str, port: str, size: str, milliseconds: str) -> int:
    data = bytes(int(size))
    with DeadlineSocket(socket.create_connection((host, int(port))), on_phase=print_phase) as flow:
        flow.declare(size_bytes=len(data), deadline_s=int(milliseconds) / 1000, quench="kill")
        try:
            flow.sendall(data)
            flow.wait_acknowledged()
        except FlowQuenched as quenched:
            print(quenched.state.acked_bytes, "bytes acknowledged, killed")
            return 1
        print(flow.state().acked_bytes, "bytes acknowledged, done")
        return 0


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    try:
        sys.exit(main(*sys.argv[1:]))
    except (SluiceError, OSError) as error:
        sys.exit(f"{error}")
