# SPDX-License-Identifier: Apache-2.0
"""The programs of the packages in two racks: containers behind bonds with VLANs, a virtual machine, containers of OVN.

The experiment `racks --packages` measures there what small flows gain.
"""

import shutil
import time
from pathlib import Path

import pytest

from experiments.checks.racks.run import (
    CONTAINERS,
    GUEST,
    LEAST_TAGGED,
    OVN,
    arrived,
    lines,
    put_in_force,
    racks,
    unpacked,
)
from sluice.runtime.wait import wait_until
from tests.deploy.packaged import obstacle
from tests.kit import guests

SERIES = "6.12"

pytestmark = [
    pytest.mark.net,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(bool(obstacle()), reason=obstacle() or "-"),
]


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("packages"))


@pytest.mark.parametrize("place", [CONTAINERS, OVN, GUEST])
def test_packets_carry_tags_once_the_policy_is_in_force(place: str, packages: Path) -> None:
    if place == GUEST and (reason := guests.obstacle(SERIES)):
        pytest.skip(reason)
    out = guests.CACHE / "results-racks"  # a virtual machine sees no folder below /tmp
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    with racks(place, out, packages) as here:
        sink = here[-1]
        put_in_force(here, "pias")

        def all_have_tags() -> bool:
            began_at = time.time()
            wait_until(lambda: len(lines(sink, "packets", began_at)) > 1, "the receiver counts packets")
            return arrived(sink, began_at)[0] >= LEAST_TAGGED

        wait_until(all_have_tags, "nearly all packets have tags", timeout_s=900)
