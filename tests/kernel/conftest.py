# SPDX-License-Identifier: Apache-2.0
"""The kernel tier: BPF programs in the running kernel, and namespaces that the tests make."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from dataplane.build import KERNEL_BTF
from dataplane.sockopt import Attachment
from runtime.command import CommandFailed, run
from tests.kernel.cgroups import Cgroup
from tests.kernel.lab import Namespace, address, connect

HERE = Path(__file__).parent
V4 = {"a": "10.9.0.1", "b": "10.9.0.2"}
V6 = {"a": "fd09::1", "b": "fd09::2"}


def _lacking() -> str | None:
    if os.geteuid() != 0:
        return "needs root"
    if not KERNEL_BTF.exists():
        return f"needs a kernel with BTF ({KERNEL_BTF})"
    try:
        run(["unshare", "--net", "true"])
    except CommandFailed as error:
        return f"cannot make namespaces here: {error.output.strip()}"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _lacking()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kernel)
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass(frozen=True)
class Pair:
    """Two hosts whose interfaces eth0 are connected."""

    a: Namespace
    b: Namespace


@pytest.fixture
def namespaces() -> Iterator[list[Namespace]]:
    """A list of namespaces that are closed after the test."""
    made: list[Namespace] = []
    yield made
    for ns in made:
        ns.close()


@pytest.fixture
def pair(namespaces: list[Namespace]) -> Pair:
    a, b = Namespace(), Namespace()
    namespaces += [a, b]
    connect(a, "eth0", b, "eth0")
    for name, ns in (("a", a), ("b", b)):
        address(ns, "eth0", f"{V4[name]}/24", f"{V6[name]}/64")
        ns.sysctl("net.ipv4.tcp_ecn", 1)
    return Pair(a, b)


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    with Cgroup() as own:
        yield own


@pytest.fixture
def hook(cgroup: Cgroup) -> Iterator[Attachment]:
    """The test's own setsockopt hook, for this process and its children."""
    attachment = Attachment(cgroup=cgroup.folder)
    yield attachment
    attachment.close()
