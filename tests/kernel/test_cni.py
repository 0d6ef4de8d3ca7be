# SPDX-License-Identifier: Apache-2.0
"""Tags of a container that plugins of CNI have connected, as Kubernetes does, with their limits of its bandwidth."""

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from sluice.dataplane.congestion import ControlSettings, HostEntry, register_congestion_control
from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.tagger import TagSettings
from sluice.policy.tags import ATTAINED_FIRST, attained_tag
from sluice.runtime.command import run
from tests.kernel.capture import SYN, Capture
from tests.kernel.conftest import V4, Pair
from tests.kernel.controls import private_build, private_name
from tests.kernel.lab import Namespace, dial, listen, send_and_receive

PLUGINS = Path("/usr/lib/cni")
SUBNET = "10.22.0.0/24"
SIZE_BYTES = 400_000
RATE_BPS = 10**9

pytestmark = pytest.mark.skipif(
    not PLUGINS.exists(), reason="the plugins of CNI are not installed: make setup"
)


def add(node: Namespace, container: Namespace, settings: dict[str, Any]) -> dict[str, Any]:
    """Let a plugin connect the container with its node, or change how it is connected. Returns the plugin's result."""
    environment = {
        "CNI_COMMAND": "ADD",
        "CNI_CONTAINERID": "container1",
        "CNI_NETNS": f"/proc/{os.getpid()}/fd/{container.fd}",
        "CNI_IFNAME": "eth0",
        "CNI_PATH": str(PLUGINS),
    }
    settings = {"cniVersion": "0.4.0", "name": "pods", **settings}
    with node:
        said = run(
            [str(PLUGINS / settings["type"])], stdin=json.dumps(settings), env=os.environ | environment
        )
    result: dict[str, Any] = json.loads(said)
    return result


@pytest.fixture(params=["ptp", "bridge"])
def container(
    request: pytest.FixtureRequest, pair: Pair, namespaces: list[Namespace], tmp_path: Path
) -> Namespace:
    """A container on the node `pair.a`."""
    made = Namespace()
    namespaces.append(made)
    addresses = {"type": "host-local", "dataDir": str(tmp_path), "ranges": [[{"subnet": SUBNET}]]}
    routes = {"routes": [{"dst": "0.0.0.0/0"}]}
    settings = {"type": request.param, "bridge": "cni0", "isGateway": True, "ipam": addresses | routes}
    result = add(pair.a, made, settings)
    limits = {f"{way}{what}": RATE_BPS for way in ("ingress", "egress") for what in ("Rate", "Burst")}
    add(pair.a, made, {"type": "bandwidth", "prevResult": result, **limits})
    pair.b.run("ip", "route", "add", SUBNET, "via", V4["a"])
    return made


@pytest.fixture
def control(hook: Attachment) -> Iterator[str]:
    with register_congestion_control(private_name("cc_dctcp"), private_build("cc_dctcp")):
        yield private_name("cc_dctcp")


def test_its_packets_leave_the_node_with_tags_and_its_limits_stay(
    pair: Pair, container: Namespace, control: str
) -> None:
    limits = pair.a.run("tc", "qdisc", "show")
    assert limits.count("tbf") == 2
    settings = ControlSettings(control=control, tags=TagSettings(60_000_000_000))
    container.sysctl("net.ipv4.tcp_congestion_control", control)
    with ExitStack() as stack:
        stack.enter_context(HostEntry()).set(settings, settings)  # of the machine, as its agent does
        capture = stack.enter_context(Capture(pair.b, "eth0"))
        listener = stack.enter_context(listen(pair.b, V4["b"], control))
        client, server = (stack.enter_context(end) for end in dial(container, listener))
        send_and_receive(client, server, SIZE_BYTES)
        sent = [packet for packet in capture.packets() if packet.dscp]
    assert {packet.dscp for packet in sent if packet.flags & SYN} == {ATTAINED_FIRST}
    tags = [packet.dscp for packet in sent if packet.data_bytes]
    assert tags[0] < tags[-1] <= attained_tag(SIZE_BYTES)
    assert pair.a.run("tc", "qdisc", "show") == limits
