# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import lzma
from pathlib import Path

import pytest

from sluice.policy.errors import EnvironmentLacking
from tools.guests import kernels
from tools.guests.kernels import Kernel, module_bytes, module_name
from tools.guests.loads import read


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    (tmp_path / "modules.builtin").write_text("kernel/drivers/virtio/virtio_pci.ko\n")
    (tmp_path / "modules.dep").write_text(
        "fs/9p.ko.xz: net/9pnet.ko.xz fs/netfs.ko.xz\nnet/9pnet.ko.xz: fs/netfs.ko.xz\nfs/netfs.ko.xz:\n"
    )
    return Kernel("6.99", tmp_path / "vmlinuz", tmp_path)


def test_a_module_comes_after_what_it_needs(kernel: Kernel) -> None:
    assert [module_name(path.name) for path in kernel.module_files(["9p"])] == ["netfs", "9pnet", "9p"]


def test_a_built_in_module_has_no_file(kernel: Kernel) -> None:
    assert kernel.module_files(["virtio_pci"]) == []


def test_an_unknown_module_is_named(kernel: Kernel) -> None:
    with pytest.raises(EnvironmentLacking, match=r"6\.99 has no module nonesuch"):
        kernel.module_files(["nonesuch"])


def test_a_compressed_module_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "a.ko.xz").write_bytes(lzma.compress(b"module"))
    assert module_bytes(tmp_path / "a.ko.xz") == b"module"


def test_a_missing_kernel_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "CACHE", tmp_path)
    with pytest.raises(EnvironmentLacking, match="make guests"):
        kernels.unpacked("6.1")


def test_results_are_read_from_a_console_with_other_lines() -> None:
    found = read(
        "[ 1.0] noise\r\n== load port 0\r\nlibbpf: == load\n== load tag 255\n== end 6.1.0-1-amd64 0\n"
    )
    assert found.codes == {("load", "port"): 0, ("load", "tag"): 255}
    assert found.release == "6.1.0-1-amd64"


def test_a_guest_that_stopped_early_has_no_release() -> None:
    assert read("== load port 0\nKernel panic").release is None
