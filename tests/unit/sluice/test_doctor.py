# SPDX-License-Identifier: Apache-2.0
"""What the doctor asks of a machine, and what it concludes."""

import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sluice import doctor
from sluice.commands.doctor import print_checks
from sluice.doctor import Check, Kernel, guarded, missing_capabilities, running, tiers_of, tried
from sluice.policy.controls import ours
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.command import CommandFailed

FINE = Check("first", True, "fine", "")


@pytest.mark.parametrize(
    "error",
    [
        EnvironmentLacking("no BTF"),
        CommandFailed(["tc"], 2, "no such qdisc"),
        subprocess.TimeoutExpired(["clang"], 10),
        PermissionError("not allowed"),
    ],
)
def test_tried__a_refusal_of_the_machine_is_a_finding_with_its_remedy(error: Exception) -> None:
    def attempt() -> str:
        raise error

    assert tried("thing", attempt, "do this") == Check("thing", False, str(error), "do this")


def test_guarded__an_unexpected_error_is_a_finding_after_those_before_it() -> None:
    def make(_: Kernel) -> Iterator[Check]:
        yield FINE
        raise KeyError("odd")

    first, second = guarded("group", make, NEW)
    assert first == FINE
    assert not second.ok
    assert "KeyError: 'odd'" in second.detail


def test_a_tool_that_cannot_run_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(argv: list[str], *, timeout_s: float) -> str:
        raise OSError(8, "Exec format error")

    monkeypatch.setattr(doctor, "run", broken)
    found = {check.name: check for check in doctor.check_tools(Kernel("6.1.0-56-amd64"))}
    assert "Exec format error" in found["tc"].detail
    assert found["tc"].remedy == "apt-get install --reinstall iproute2"


@pytest.mark.parametrize(("in_container", "remedy"), [(True, "--device"), (False, "modprobe tun")])
def test_without_the_tun_device_the_remedy_fits_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_container: bool, remedy: str
) -> None:
    monkeypatch.setattr(doctor, "TUN", tmp_path / "tun")
    (check,) = doctor.check_tun(Kernel("6.1.0", frozenset({"tun"}), in_container=in_container))
    assert not check.ok
    assert remedy in check.remedy


CONTROLS = [doctor.struct_ops(control.kernel_name) for control in ours()]
ALL = [*CONTROLS, doctor.HOOK, doctor.PORT_PROGRAM, doctor.WATCH]
DEBIAN_WITH_DCTCP = Kernel("6.1.0-56-amd64", frozenset({"tcp_dctcp"}))
NEW = Kernel("6.18.44")


def tiers(
    ok: list[str],
    kernel: Kernel = NEW,
    *,
    netem: bool = True,
    datapaths: str = "",
    link: str | None = None,
) -> dict[str, str]:
    found = [Check(name, name in ok, "", "") for name in ALL] + [Check(doctor.DATAPATHS, True, datapaths, "")]
    return dict(tiers_of(found, kernel, netem, ["reno", "cubic"], link))


def test_everything_works() -> None:
    found = tiers(ALL, datapaths="kernel and userspace")
    assert found["congestion control"] == "Sluice's own, in BPF; each ends with its process"
    assert found["switches"] == "Open vSwitch's kernel datapath"
    assert found["flow queues"] == "yes"
    assert found["link delays"] == "netem"
    assert "setsockopt" in found["deadlines"]
    assert found["flow watch"] == "every TCP connection"


def test_without_struct_ops_the_kernels_own_controls_are_named() -> None:
    found = tiers([doctor.HOOK, doctor.PORT_PROGRAM], DEBIAN_WITH_DCTCP)["congestion control"]
    assert found.startswith("the kernel's own ")
    assert "dctcp" in found.partition(" for ")[0]
    assert "reno" in found.partition(" for ")[0]
    assert "not valid" in found


def test_each_missing_feature_has_its_lower_tier() -> None:
    found = tiers([], netem=False, datapaths="userspace only: the kernel has no openvswitch module")
    assert found["switches"] == "Open vSwitch's userspace datapath"
    assert found["flow queues"].startswith("no")
    assert "no module sch_netem" in found["link delays"]
    assert "none" in found["deadlines"]
    assert found["flow watch"] == "only scheduled flows"


DEBIAN = Kernel(
    "6.1.0-56-amd64", frozenset({"sch_htb", "sch_netem"}), {"CONFIG_BPF_JIT": "y", "CONFIG_CGROUP_BPF": "y"}
)
OLD = Kernel("5.10.0-30-amd64", frozenset({"sch_htb"}))
BARE = Kernel("6.6.0-cloud", frozenset(), {"CONFIG_NET": "y"})
CONTAINER = Kernel("6.1.0-56-amd64", in_container=True)


def test_the_remedy_fits_the_kernel() -> None:
    for remedy, expected in (
        (DEBIAN.module_remedy("sch_htb"), "modprobe sch_htb"),
        (BARE.module_remedy("sch_htb"), "6.6.0-cloud has no module sch_htb"),
        (CONTAINER.module_remedy("sch_htb"), "on the host of this container: modprobe sch_htb"),
        (CONTAINER.btf_remedy(), "/sys/kernel/btf"),
        (CONTAINER.programs_remedy(), "--privileged"),
        (OLD.struct_ops_remedy(), "Linux 5.10.0-30-amd64 has no struct_ops: boot Linux 5.13 or later"),
        (BARE.struct_ops_remedy(), "without CONFIG_BPF_JIT=y"),
        (BARE.hook_remedy(cgroup2_mounted=True), "without CONFIG_CGROUP_BPF=y"),
        (DEBIAN.hook_remedy(cgroup2_mounted=False), "mount -t cgroup2"),
        (OLD.hook_remedy(cgroup2_mounted=False), "boot Linux 5.18"),
        (BARE.btf_remedy(), "6.6.0-cloud is built without CONFIG_DEBUG_INFO_BTF=y"),
    ):
        assert expected in remedy
    assert Kernel("unknown").version == (0, 0)


def test_the_running_kernel_has_a_version_and_modules() -> None:
    here = running()
    assert here.version > (4, 0)
    assert here.modules


def test_without_capabilities_no_module_is_blamed() -> None:
    locked = replace(CONTAINER, missing_capabilities=("CAP_NET_ADMIN",))
    expected = "start the container with --privileged, or with CAP_NET_ADMIN"
    remedies = {locked.qdisc_remedy("sch_htb"), locked.tool_remedy("iputils-ping"), locked.programs_remedy()}
    assert remedies == {expected}
    assert DEBIAN.qdisc_remedy("sch_htb") == "modprobe sch_htb"


@pytest.mark.parametrize(
    ("effective", "missing"),
    [
        ("000001ffffffffff", ()),
        (f"{1 << 12 | 1 << 21:016x}", ()),
        (f"{1 << 12 | 1 << 39:016x}", ("CAP_SYS_ADMIN", "CAP_PERFMON")),
        ("0000000000000000", ("CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_PERFMON", "CAP_BPF")),
    ],
)
def test_missing_capabilities(effective: str, missing: tuple[str, ...]) -> None:
    assert missing_capabilities(f"Name:\tpython\nCapEff:\t{effective}\nCapBnd:\t0\n") == missing


def test_files_that_a_container_hides_are_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "Path", lambda *parts: tmp_path.joinpath(*(p.lstrip("/") for p in parts)))
    here = running()
    assert (here.modules, here.config, here.missing_capabilities) == (frozenset(), {}, ())


LONG = "mount " + "x" * 200


def test_print_checks__a_remedy_is_one_line_and_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    found = [Check("a", False, "no", LONG), Check("b", True, "yes", LONG), Check("c", False, "no", LONG)]
    assert print_checks(found) == found
    assert capsys.readouterr().out.splitlines() == [
        "✗ a: no",
        f"    remedy: {LONG}",
        "✓ b: yes",
        "✗ c: no",
        "    remedy: as above",
    ]
