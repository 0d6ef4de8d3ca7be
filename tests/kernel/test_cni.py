# SPDX-License-Identifier: Apache-2.0
"""Tags of a container that plugins of CNI have connected, as Kubernetes does, with their limits of its bandwidth."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from sluice.dataplane.congestion import ControlSettings, HostEntry, register_congestion_control
from sluice.dataplane.sockopt import Attachment
from sluice.dataplane.tagger import TagSettings
from sluice.policy.tags import ATTAINED_FIRST, attained_tag
from tests.kernel.capture import SYN, Capture
from tests.kernel.cni import PLUGINS, connect_container
from tests.kernel.conftest import V4, Pair
from tests.kernel.controls import private_build, private_name
from tests.kernel.lab import Namespace, dial, listen, send_and_receive

SUBNET = "10.22.0.0/24"
SIZE_BYTES = 400_000

pytestmark = pytest.mark.skipif(
    not PLUGINS.exists(), reason="the plugins of CNI are not installed: make setup"
)


@pytest.fixture(params=["ptp", "bridge"])
def container(
    request: pytest.FixtureRequest, pair: Pair, namespaces: list[Namespace], tmp_path: Path
) -> Namespace:
    """A container on the node `pair.a`."""
    made = Namespace()
    namespaces.append(made)
    connect_container(pair.a, made, request.param, SUBNET, tmp_path)
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
        entry = stack.enter_context(HostEntry())
        with container:  # not for the whole machine, as its agent does, because other tests run there
            entry.set(settings)
        capture = stack.enter_context(Capture(pair.b, "eth0"))
        listener = stack.enter_context(listen(pair.b, V4["b"], control))
        client, server = (stack.enter_context(end) for end in dial(container, listener))
        send_and_receive(client, server, SIZE_BYTES)
        sent = [packet for packet in capture.packets() if packet.dscp]
    assert {packet.dscp for packet in sent if packet.flags & SYN} == {ATTAINED_FIRST}
    tags = [packet.dscp for packet in sent if packet.data_bytes]
    assert tags[0] < tags[-1] <= attained_tag(SIZE_BYTES)
    assert pair.a.run("tc", "qdisc", "show") == limits
