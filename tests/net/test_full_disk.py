# SPDX-License-Identifier: Apache-2.0
"""An agent whose disk is full keeps its host's traffic going, and loses no record that fits into memory."""

from sluice.policy.wire.records import FINISHED
from sluice.runtime.wait import wait_until
from tests.kit.flows import flow
from tests.kit.small_disk import SmallDisk
from tests.unit.hostagent.agents import Agents


def test_a_full_disk_ends_no_agent_and_the_records_arrive() -> None:
    with Agents() as agents:
        disk = SmallDisk(agents.folder / "h1", "256k")
        agents.prefix["h1"] = disk.prefix
        agents.start(*(flow(number, 0.02 * number) for number in range(100)))
        pid = agents.processes["h1"].pid
        disk.fill(pid)
        records = agents.records(100)
        assert {record.status for record in records.values()} == {FINISHED}
        status = wait_until(
            lambda: agents.status("h1") if agents.status("h1")["disk_problem"] else None,
            "it reports the disk",
        )
        assert "No space left on device" in status["disk_problem"]
        assert status["records_dropped"] == 0
        assert status["pid"] == pid  # the same process
        disk.make_room(pid)
