# SPDX-License-Identifier: Apache-2.0
"""`sluice capture`: packets of a switch port of a running testbed, into a pcap file.

tcpdump sees outgoing packets as they leave the port: queued, marked and tagged. It also sees
incoming packets.
"""

import argparse
import re
import shutil
import signal
import subprocess
from pathlib import Path

from sluice.commands.arguments import command_parser, completed, file, ports, seconds
from sluice.policy.errors import EnvironmentLacking, FieldError, SluiceError
from sluice.policy.network.graph import Port, Topology
from sluice.runs.files import need_root
from sluice.runtime.process import spawn
from sluice.runtime.wait import wait_until
from sluice.testbeds import Running, add_testbed, the_testbed

START_S, END_S = 10.0, 10.0
_COUNT = re.compile(r"^(\d+) packets? captured", re.MULTILINE)


def parser() -> argparse.ArgumentParser:
    parser = command_parser("capture")
    port = parser.add_argument("port", help="as the dashboard names it: SWITCH:NUMBER, for example s1:2")
    completed(port, ports)
    parser.add_argument(
        "--seconds", type=seconds, default=5.0, help="how many seconds to capture (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=file, required=True, help="pcap file to write, for tcpdump -r or Wireshark"
    )
    add_testbed(parser)
    return parser


def execute(arguments: argparse.Namespace) -> int:
    need_root()
    count = capture(arguments.port, arguments.seconds, arguments.out, testbed_pid=arguments.testbed)
    print(f"{arguments.out}: {count} packets of {arguments.port}")
    return 0


def port_named(topology: Topology, name: str) -> Port:
    for port in topology.ports:
        if port.id == name:
            return port
    names = ", ".join(port.id for port in topology.ports)
    raise FieldError("port", f"the network has no port {name!r}; its ports are {names}")


def capture(port_id: str, seconds: float, out: Path, *, testbed_pid: int | None = None) -> int:
    """Capture packets for that many seconds and return their number.

    Raises FieldError (no such port or testbed), SluiceError (no testbed runs, or tcpdump failed)
    and EnvironmentLacking.
    """
    if shutil.which("tcpdump") is None:
        raise EnvironmentLacking("tcpdump is missing; on Debian: apt-get install tcpdump")
    bed = the_testbed(testbed_pid)
    interface = port_named(bed.topology, port_id).interface
    out.parent.mkdir(parents=True, exist_ok=True)
    said = out.with_name(out.name + ".log")
    said.unlink(missing_ok=True)
    try:
        process = _start(bed, interface, out, said)
        try:
            process.wait(seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            # At Ctrl-C, the file keeps the packets of the time before.
            process.send_signal(signal.SIGINT)
            process.wait(END_S)
        text = said.read_text(errors="replace")
    finally:
        said.unlink(missing_ok=True)
    captured = _COUNT.search(text)
    if captured is None:
        raise SluiceError(f"tcpdump ended early (did the testbed end?): {text.strip()}")
    return int(captured[1])


def _start(bed: Running, interface: str, out: Path, said: Path) -> subprocess.Popen[bytes]:
    """Start tcpdump; return once it captures."""
    argv = ["nsenter", f"--net=/proc/{bed.pid}/ns/net", "tcpdump", "-i", interface, "-Z", "root"]
    process = spawn([*argv, "-U", "-w", str(out)], log_file=said)

    def listens() -> bool:
        if process.poll() is not None:
            raise SluiceError(f"tcpdump ended: {said.read_text(errors='replace').strip()}")
        return "listening on" in said.read_text(errors="replace")

    try:
        wait_until(listens, "tcpdump listens", timeout_s=START_S)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process
