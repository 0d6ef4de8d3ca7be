# SPDX-License-Identifier: Apache-2.0
"""Loading, unloading and registering leave nothing behind, and refusals name the reason."""

import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from sluice.dataplane import build, congestion
from sluice.dataplane.congestion import CongestionControl, available, register_congestion_control
from sluice.dataplane.libbpf import lib
from sluice.dataplane.loader import kernel_has_struct_ops_links, load, open_object
from sluice.policy.errors import EnvironmentLacking
from sluice.runtime import process
from sluice.runtime.command import run
from sluice.runtime.wait import wait_until
from tests.kernel.controls import private_build, private_name
from tests.kernel.objects import leaves_nothing

PORTS_MAX = 1024
BPF_F_NO_PREALLOC = 1


links = pytest.mark.skipif(
    not kernel_has_struct_ops_links(), reason="before Linux 6.4, a killed process leaves its control"
)


@pytest.fixture
def control_file() -> Path:
    return private_build()


@pytest.mark.parametrize("name", ["tag", "port"])
def test_load__again_and_again_leaves_nothing(name: str) -> None:
    leaves_nothing(partial(load, name))


def test_a_port_never_gets_memory_whose_lock_is_held() -> None:
    """A preallocated hash gives the memory of a deleted entry to the next one at once. An array keeps its locks."""
    with load("port") as port:
        assert lib().bpf_map__map_flags(port.map_handle("flow_queues")) & BPF_F_NO_PREALLOC


def test_register__again_and_again_leaves_nothing(control_file: Path) -> None:
    name = private_name()

    @contextmanager
    def used() -> Iterator[None]:
        with register_congestion_control(name, control_file) as control:
            assert control.owned
            assert name in available()
            yield
        assert name not in available()

    leaves_nothing(used)


def test_register__a_second_interest_uses_the_first_registration(control_file: Path) -> None:
    name = private_name()
    with register_congestion_control(name, control_file) as first:
        second = register_congestion_control(name, control_file)
        assert (first.owned, second.owned) == (True, False)
        assert not second.ensure()
        first.close()
        assert name not in available()
        assert second.ensure(), "the second takes over after the first has ended"
        assert second.owned
        assert name in available()
        second.close()
        second.close()
    assert name not in available()


def test_register__loses_the_race_and_uses_the_winners(
    control_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = private_name()
    with register_congestion_control(name, control_file), monkeypatch.context() as patch:
        patch.setattr(congestion, "available", list)  # the list from before the registration
        with register_congestion_control(name, control_file) as late:
            assert not late.owned
        patch.undo()
        assert name in available()


def hold(name: str, control_file: Path) -> subprocess.Popen[bytes]:
    """Return a process that has registered the control."""
    script = (
        "import sys, signal, pathlib; from sluice.dataplane.congestion import register_congestion_control as r;"
        "handle = r(sys.argv[1], pathlib.Path(sys.argv[2])); signal.pause()"
    )
    holder = process.spawn([sys.executable, "-c", script, name, str(control_file)])
    wait_until(lambda: name in available(), "the other process registers the control")
    return holder


@links
def test_keep__a_control_outlives_the_process_that_registered_it(control_file: Path) -> None:
    name = private_name()
    holder = hold(name, control_file)
    with CongestionControl(name, control_file) as kept:
        kept.keep()
        process.stop(holder)
        assert name in available()
        with register_congestion_control(name, control_file) as another:
            assert not another.owned
    wait_until(lambda: name not in available(), "the control ends with the last that keeps it")
    with CongestionControl(name, control_file) as first:
        first.keep()
        assert name in available()
    assert name not in available()


@links
def test_register__ends_with_its_process(control_file: Path) -> None:
    name = private_name()
    holder = hold(name, control_file)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    wait_until(lambda: name not in available(), "the control ends with its process")


@pytest.mark.skipif(kernel_has_struct_ops_links(), reason="a registration ends with its process here")
def test_register__before_links_a_control_outlives_a_killed_process_and_others_use_it(
    control_file: Path,
) -> None:
    name = private_name()
    holder = hold(name, control_file)
    process.stop(holder)
    assert name in available()
    with register_congestion_control(name, control_file) as second:
        assert not second.owned
    run(["bpftool", "struct_ops", "unregister", "name", name])
    assert name not in available()


def test_load__a_damaged_object_is_named(tmp_path: Path) -> None:
    whole = build.ensure("port").read_bytes()
    for name, data in (
        ("empty", b""),
        ("text", b"no object at all\n" * 40),
        ("half", whole[: len(whole) // 2]),
    ):
        path = tmp_path / f"{name}.bpf.o"
        path.write_bytes(data)
        with pytest.raises(EnvironmentLacking, match=r"damaged or not for this kernel") as raised:
            open_object(path)
        assert str(path) in str(raised.value)


def test_load__a_refused_program_shows_the_verifiers_output(tmp_path: Path) -> None:
    source = """
    #include "packet.bpf.h"
    SEC("tc") int sluice_wrong(struct __sk_buff *skb) { return *(int *)(long)skb->data; }
    char LICENSE[] SEC("license") = "GPL";
    """
    path = build.compile_source("wrong", source, tmp_path)
    with pytest.raises(EnvironmentLacking) as raised:
        open_object(path)
    assert "invalid access to packet" in str(raised.value)
    assert "verifier" in str(raised.value)


def test_maps__lookup_update_delete_and_their_errors() -> None:
    with load("port") as port:
        settings, counters = port.map("settings"), port.map("counters")
        size = settings.value_size
        value = bytes(range(size))
        assert settings.lookup(7) is None
        assert settings.update(7, value)
        assert not settings.update(7, bytes(size), only_new=True)
        assert settings.lookup(7) == value
        assert settings.delete(7)
        assert not settings.delete(7)
        assert counters.lookup_sum(PORTS_MAX, "=40Q") is None
        counters.update(7, struct.pack("=40Q", *range(40)))
        cpus = len(counters.lookup_per_cpu(7) or [])
        assert counters.lookup_sum(7, "=40Q") == tuple(n * cpus for n in range(40))
        for wrong in (b"", bytes(size - 1)):
            with pytest.raises(EnvironmentLacking, match=f"{size} bytes.* `make bpf`"):
                settings.update(7, wrong)
        with pytest.raises(EnvironmentLacking, match=r"a key has 4 bytes.* `make bpf`"):
            settings.lookup(b"123")
        with pytest.raises(TypeError):
            settings.lookup_per_cpu(7)
        for key in range(PORTS_MAX):
            settings.update(key, value)
        with pytest.raises(OSError, match="BPF map settings"):
            settings.update(PORTS_MAX, value)
        with pytest.raises(EnvironmentLacking, match=r"no map nothing.* `make bpf`"):
            port.map("nothing")
        with pytest.raises(EnvironmentLacking, match=r"no program nothing.* `make bpf`"):
            port.program("nothing")
    with pytest.raises(ValueError, match="closed"):
        port.map("settings")
