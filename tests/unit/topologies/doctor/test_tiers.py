# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice.dataplane.link_queues import FQ, HTB, QdiscKind
from sluice.doctor import check
from sluice.doctor.check import Check
from sluice.doctor.kernel import Kernel
from sluice.doctor.tiers import active_tiers
from sluice.policy.controls import ours

CONTROLS = [check.struct_ops(control.kernel_name) for control in ours()]
ALL = [*CONTROLS, check.HOOK, check.PORT_PROGRAM, check.WATCH]
DEBIAN = Kernel("6.1.0-56-amd64", frozenset({"tcp_dctcp"}))
NEW = Kernel("6.18.44")


def tiers(
    ok: list[str],
    kernel: Kernel = NEW,
    *,
    netem: bool = True,
    datapaths: str = "",
    link: QdiscKind | None = None,
) -> dict[str, str]:
    found = [Check(name, name in ok, "", "") for name in ALL] + [Check(check.DATAPATHS, True, datapaths, "")]
    return dict(active_tiers(found, kernel, netem, ["reno", "cubic"], link))


def test_everything_works() -> None:
    found = tiers(ALL, datapaths="kernel and userspace")
    assert found["congestion control"] == "Sluice's own, in BPF; each ends with its process"
    assert found["switches"] == "Open vSwitch's kernel datapath"
    assert found["flow queues"] == "yes"
    assert found["link delays"] == "netem"
    assert "setsockopt" in found["deadlines"]
    assert found["flow watch"] == "every TCP connection"


def test_the_qdisc_of_the_hosts_own_links_is_named() -> None:
    assert tiers(ALL, link=HTB)["hosts' own links"] == "htb: eight strict queues"
    assert "not strict" in tiers(ALL, link=FQ)["hosts' own links"]
    assert tiers(ALL)["hosts' own links"] == "one queue"


def test_before_6_4_a_control_outlives_a_killed_process() -> None:
    assert "killed agent leaves" in tiers(ALL, DEBIAN)["congestion control"]


def test_without_struct_ops_the_kernels_own_controls_are_named() -> None:
    found = tiers([check.HOOK, check.PORT_PROGRAM], DEBIAN)["congestion control"]
    assert found.startswith("the kernel's own ")
    assert "dctcp" in found.partition(" for ")[0]
    assert "reno" in found.partition(" for ")[0]
    assert "not valid" in found


def test_a_kernel_without_dctcp_uses_the_last_resort() -> None:
    assert tiers([])["congestion control"].startswith("the kernel's own cubic and reno for sluice_dctcp")


def test_each_missing_feature_has_its_lower_tier() -> None:
    found = tiers([], netem=False, datapaths="userspace only: the kernel has no openvswitch module")
    assert found["switches"] == "Open vSwitch's userspace datapath"
    assert found["flow queues"].startswith("no")
    assert "no module sch_netem" in found["link delays"]
    assert "none" in found["deadlines"]
    assert found["flow watch"] == "only scheduled flows"
