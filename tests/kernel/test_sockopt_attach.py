# SPDX-License-Identifier: Apache-2.0
"""The setsockopt hook comes, goes, changes hands, and says what a machine lacks."""

import errno
import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from sluice.dataplane import libbpf, sockopt
from sluice.dataplane.sockopt import SOL_SLUICE, Attachment, SocketHook, answers
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime.command import run
from sluice.runtime.process import spawn
from sluice.runtime.wait import wait_until
from tests.kernel.controls import FULL, SIZE, declare, declare_size, declared, refusal
from tests.kernel.lab import Namespace
from tests.kernel.objects import leaves_nothing, programs_of, wait_freed
from tests.kernel.watching import Cgroup

# -- attaching


def test_two_hooks__the_second_ignores_the_call(hook: Attachment, cgroup: Cgroup, served: Namespace) -> None:
    second = Attachment(cgroup=cgroup.folder)
    with served, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        declare(sock, *FULL)
        assert declared(sock)[2] == FULL[2]
        assert refusal(lambda: declare(sock, SIZE, 0, 0, 0, 0, 0, 0, b"")) == errno.EINVAL
        assert refusal(lambda: sock.getsockopt(SOL_SLUICE, 3, 56)) == errno.ENOPROTOOPT
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        hook.close()
        assert declared(sock)[2] == FULL[2], "both hooks share the declaration"
        declare_size(sock, 5)
        assert declared(sock)[2] == 5
    second.close()
    second.close()


def test_attach__again_and_again_leaves_nothing(cgroup: Cgroup, served: Namespace) -> None:
    @contextmanager
    def used() -> Iterator[None]:
        with (
            Attachment(cgroup=cgroup.folder),
            served,
            socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock,
        ):
            declare(sock, *FULL)
            yield

    leaves_nothing(used)


def test_attach__ends_with_its_process(cgroup: Cgroup, tmp_path: Path, served: Namespace) -> None:
    script = (
        "import sys, signal, pathlib; from sluice.dataplane.sockopt import Attachment;"
        "held = Attachment(cgroup=pathlib.Path(sys.argv[1])); print('attached', flush=True); signal.pause()"
    )
    output = tmp_path / "output"
    holder = spawn([sys.executable, "-c", script, str(cgroup.folder)], log_file=output)
    wait_until(lambda: "attached" in output.read_text(), "the other process attaches its hook")
    programs = programs_of(holder.pid)
    with served, socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        declare(sock, *FULL)
        assert declared(sock)[2] == FULL[2]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    wait_freed(programs)


class HookOf(SocketHook):
    """The hook of one control group. Agents of this machine have theirs at the root, and serve this process too."""

    def __init__(self, cgroup: Cgroup) -> None:
        super().__init__()
        self._cgroup = cgroup

    def is_present(self) -> bool:
        return "sluice_set" in run(["bpftool", "cgroup", "show", str(self._cgroup.folder)])

    def _provide(self) -> Attachment:
        return Attachment(cgroup=self._cgroup.folder)


def test_ensure__uses_another_hook_and_takes_over_after_its_end(cgroup: Cgroup) -> None:
    with HookOf(cgroup) as first, HookOf(cgroup) as second:
        assert (first.ensure(), first.owned) == (True, True)
        assert answers()
        assert (second.ensure(), second.owned) == (False, False)
        first.close()
        assert not second.is_present()
        assert (second.ensure(), second.owned) == (True, True)
        assert answers()
        assert not second.ensure()
        second.close()
        second.close()
        assert not second.is_present()


def test_keep__the_hook_outlives_the_one_that_was_first(cgroup: Cgroup) -> None:
    with HookOf(cgroup) as first, HookOf(cgroup) as kept:
        first.ensure()
        kept.keep()
        first.close()
        assert answers()
        assert kept.is_present()
        kept.close()
        assert not kept.is_present()


def test_without_an_agent__the_errors_of_the_header(cgroup: Cgroup) -> None:
    found, expected = [], []
    for family, get in ((socket.AF_INET, errno.EOPNOTSUPP), (socket.AF_INET6, errno.ENOPROTOOPT)):
        with socket.socket(family, socket.SOCK_STREAM) as sock:
            found += [refusal(partial(declare, sock, *FULL)), refusal(partial(declared, sock))]
            expected += [errno.ENOPROTOOPT, get]
    if found != expected and answers():
        pytest.skip("an agent on this machine holds the hook")
    assert found == expected


# -- machines that lack a feature


def test_attach__without_a_control_group(tmp_path: Path) -> None:
    """The kernel refuses a folder of another file system. The message names the folder and the remedy."""
    with pytest.raises(
        EnvironmentLacking, match=f"cannot attach the setsockopt hook to {tmp_path}: .*sluice doctor"
    ):
        Attachment(cgroup=tmp_path)


def test_cgroup_root__not_mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text("30 23 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n")
    monkeypatch.setattr(sockopt, "MOUNTS", mounts)
    with pytest.raises(EnvironmentLacking, match="mount -t cgroup2"):
        SocketHook()._provide()
    mounts.write_text("30 23 0:26 / /sys/fs/a\\040b rw shared:9 - cgroup2 cgroup2 rw\n")
    assert sockopt.cgroup_root() == Path("/sys/fs/a b")


def test_kernel_without_cgroup_bpf(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert not sockopt._kernel_lacks_the_hook()
    monkeypatch.setattr(libbpf, "PROGRAM_TYPE_CGROUP_SOCKOPT", 0)  # unspecified, which no kernel accepts
    (tmp_path / "refused.bpf.o").write_bytes(b"")
    with pytest.raises(EnvironmentLacking, match="CONFIG_CGROUP_BPF"):
        Attachment(tmp_path / "refused.bpf.o")
