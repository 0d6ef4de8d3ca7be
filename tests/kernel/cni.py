# SPDX-License-Identifier: Apache-2.0
"""Containers that plugins of CNI connect with their node, as Kubernetes does, with limits of their bandwidth."""

import json
import os
from pathlib import Path
from typing import Any

from sluice.runtime.command import run
from tests.kernel.lab import Namespace

PLUGINS = Path("/usr/lib/cni")
RATE_BPS = 10**9


def connect_container(node: Namespace, container: Namespace, plugin: str, subnet: str, folder: Path) -> None:
    """Connect a container by this plugin, with an address of the subnet. The node has the subnet's first address."""
    addresses = {"type": "host-local", "dataDir": str(folder), "ranges": [[{"subnet": subnet}]]}
    routes = {"routes": [{"dst": "0.0.0.0/0"}]}
    settings = {"type": plugin, "bridge": "cni0", "isGateway": True, "ipam": addresses | routes}
    result = _add(node, container, settings)
    limits = {f"{way}{what}": RATE_BPS for way in ("ingress", "egress") for what in ("Rate", "Burst")}
    _add(node, container, {"type": "bandwidth", "prevResult": result, **limits})


def _add(node: Namespace, container: Namespace, settings: dict[str, Any]) -> dict[str, Any]:
    """Let a plugin connect the container, or change how it is connected. Returns the plugin's result."""
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
