# SPDX-License-Identifier: Apache-2.0
"""The BPF objects of the kernel, to check that Sluice leaves none behind and that none accumulate."""

import json
import os
from dataclasses import dataclass

from sluice.dataplane import loader, shared_resource
from sluice.dataplane.libbpf import ATTACH_ITERATOR
from sluice.dataplane.loader import load
from sluice.runtime.command import run


@dataclass(frozen=True, order=True)
class BpfThing:
    """A map, a program or a link of the kernel."""

    kind: str
    id: int
    name: str


def bpf_things() -> set[BpfThing]:
    """Return all BPF objects of the machine, including those of other programs."""
    return {
        BpfThing(kind, int(item["id"]), str(item.get("name") or item.get("type", "")))
        for kind in ("map", "prog", "link")
        for item in json.loads(run(["bpftool", "--json", kind, "show"]) or "[]")
    }


def storages(map_name: str) -> int:
    """Return how many sockets have an entry in a shared map (shared_resource.py), 0 if there is no such map."""
    fd = shared_resource.descriptor(map_name)
    if fd is None:
        return 0
    try:
        with load("storages") as counter:
            link_fd = loader.attach(counter.program("sluice_storages"), ATTACH_ITERATOR, fd)
            try:
                return len(loader.read(link_fd))
            finally:
                os.close(link_fd)
    finally:
        os.close(fd)
