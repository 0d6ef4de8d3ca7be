# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from sluice.doctor import kernel
from sluice.doctor.kernel import Kernel, missing_capabilities, running

DEBIAN = Kernel(
    "6.1.0-56-amd64", frozenset({"sch_htb", "sch_netem"}), {"CONFIG_BPF_JIT": "y", "CONFIG_CGROUP_BPF": "y"}
)
OLD = Kernel("5.10.0-30-amd64", frozenset({"sch_htb"}))
BARE = Kernel("6.6.0-cloud", frozenset(), {"CONFIG_NET": "y"})
CONTAINER = Kernel("6.1.0-56-amd64", in_container=True)


@pytest.mark.parametrize(
    ("release", "version"), [("6.1.0-56-amd64", (6, 1)), ("5.4.0", (5, 4)), ("unknown", (0, 0))]
)
def test_the_version_is_read_from_the_release(release: str, version: tuple[int, int]) -> None:
    assert Kernel(release).version == version


def test_modprobe_is_the_remedy_only_if_the_module_exists() -> None:
    assert DEBIAN.module_remedy("sch_htb") == "modprobe sch_htb"
    assert "modprobe" not in BARE.module_remedy("sch_htb")
    assert "6.6.0-cloud has no module sch_htb" in BARE.module_remedy("sch_htb")


def test_a_container_sends_the_user_to_its_host() -> None:
    assert CONTAINER.module_remedy("sch_htb").startswith("on the host of this container: modprobe sch_htb")
    assert "/sys/kernel/btf" in CONTAINER.btf_remedy()
    assert "--privileged" in CONTAINER.programs_remedy()


def test_a_kernel_before_5_13_cannot_have_struct_ops() -> None:
    assert OLD.struct_ops_remedy() == "Linux 5.10.0-30-amd64 has no struct_ops: boot Linux 5.13 or later"


def test_a_kernel_without_an_option_needs_another_build() -> None:
    assert "without CONFIG_BPF_JIT=y" in BARE.struct_ops_remedy()
    assert "without CONFIG_CGROUP_BPF=y" in BARE.hook_remedy(cgroup2_mounted=True)


def test_the_hook_needs_a_mounted_cgroup2() -> None:
    assert "mount -t cgroup2" in DEBIAN.hook_remedy(cgroup2_mounted=False)
    assert "boot Linux 5.18" in OLD.hook_remedy(cgroup2_mounted=False)


def test_a_kernel_without_btf_is_named() -> None:
    assert "6.6.0-cloud is built without CONFIG_DEBUG_INFO_BTF=y" in BARE.btf_remedy()


def test_the_running_kernel_has_a_version_and_modules() -> None:
    here = running()
    assert here.version > (4, 0)
    assert here.modules


@pytest.mark.parametrize("remedy", [Kernel.programs_remedy, Kernel.struct_ops_remedy])
def test_without_btf_programs_have_the_remedy_of_btf(remedy: Callable[[Kernel], str]) -> None:
    hidden = replace(CONTAINER, btf=False)
    assert remedy(hidden) == hidden.btf_remedy()
    assert "CONFIG_DEBUG_INFO_BTF" in remedy(replace(DEBIAN, btf=False))


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


def test_a_machine_that_hides_proc_is_not_said_to_lack_capabilities() -> None:
    assert missing_capabilities("") == ()


def test_files_that_a_container_hides_are_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "Path", lambda *parts: tmp_path.joinpath(*(p.lstrip("/") for p in parts)))
    here = running()
    assert (here.modules, here.config, here.missing_capabilities) == (frozenset(), {}, ())
