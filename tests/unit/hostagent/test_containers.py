# SPDX-License-Identifier: Apache-2.0

from pathlib import Path

import pytest

from sluice.hostagent.containers import Containers

ID = "0f" * 32
POD = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod6e2.slice"


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        (f"system.slice/docker-{ID}.scope", ID[:12]),
        (f"docker/{ID}/init.scope", ID[:12]),
        (f"{POD}/cri-containerd-{ID}.scope", ID[:12]),
        (f"{POD}/crio-{ID}.scope/container", ID[:12]),
        (f"machine.slice/libpod-{ID}.scope", ID[:12]),
        (f"system.slice/docker-{ID}.scope/docker/{'ab' * 32}", ID[:12]),
        ("lxc.payload.web/system.slice/nginx.service", "web"),
        (r"machine.slice/machine-qemu\x2d1\x2dmail.scope", "qemu-1-mail"),
        ("machine.slice/systemd-nspawn@db.service/payload", "db"),
        (r"machine.slice/machine-\x0a.scope", None),
        ("machine.slice/machine-" + "a" * 90 + ".scope", "a" * 64),
        ("user.slice/user-0.slice/session-1.scope", None),
        ("system.slice/docker.service", None),
        (f"system.slice/docker-{ID[:-1]}.scope", None),
    ],
)
def test_name__what_runtimes_call_it(tmp_path: Path, folder: str, name: str | None) -> None:
    (tmp_path / folder).mkdir(parents=True)
    assert Containers(tmp_path).name((tmp_path / folder).stat().st_ino) == name


def test_name__a_later_container_is_found_and_the_folders_are_read_once_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 100.0
    monkeypatch.setattr("sluice.hostagent.containers.time.monotonic", lambda: now_s)
    (tmp_path / "system.slice").mkdir()
    found = Containers(tmp_path)
    assert found.name(0) is None
    assert found.name((tmp_path / "system.slice").stat().st_ino) is None
    later = tmp_path / "lxc.payload.later"
    later.mkdir()
    assert found.name(later.stat().st_ino) is None
    now_s += 1
    assert found.name(later.stat().st_ino) == "later"
