# SPDX-License-Identifier: Apache-2.0
"""Real Open vSwitch and the controller over TLS, with a certificate of the right and of another authority."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice import topologies
from sluice.runtime.wait import wait_until
from tests.fakes.certificates import Authority, Pair
from tests.net.controlled import LISTEN, Controlled


class Secured(Controlled):
    """One switch that reaches a controller only by TLS."""

    def __init__(self, folder: Path) -> None:
        super().__init__(topologies.build("single", hosts=2), folder, {"scheme": "pias"})
        self.authority, self.other_authority = Authority(folder, "own"), Authority(folder, "other")
        own = self.authority.issue("controller")
        argv: list[str | Path] = [
            sys.executable,
            "-m",
            "sluice",
            "controller",
            "--store",
            self.store_url,
            "--listen",
            LISTEN,
        ]
        argv += ["--tls-key", own.key, "--tls-cert", own.certificate, "--tls-ca", self.authority.certificate]
        self.controller = self.bed.spawn(None, list(map(str, argv)), log_file=folder / "controller.log")
        wait_until(lambda: "listening" in self.log, "the controller listens")

    def connect_as(self, pair: Pair) -> None:
        files = (pair.key, pair.certificate, self.authority.certificate)
        self.bed.ovs(["ovs-vsctl", "set-ssl", *map(str, files)])
        self.bed.ovs(["ovs-vsctl", "set-controller", "s1", f"ssl:{LISTEN}"])


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    network = Secured(tmp_path)
    yield network
    network.close()


def test_a_switch_is_served_over_tls_and_one_with_another_certificate_is_refused(secured: Secured) -> None:
    secured.connect_as(secured.other_authority.issue("switch"))
    wait_until(
        lambda: "TLS: CERTIFICATE_VERIFY_FAILED" in secured.log,
        "the controller refuses the switch",
    )
    assert secured.rules("s1") == {}
    secured.connect_as(secured.authority.issue("switch"))
    secured.wait_applied()
    assert len(secured.queue_map("s1", 1)) > 60
    secured.apply({"scheme": "tcp"})
    assert set(secured.queue_map("s1", 1).values()) == {0}
