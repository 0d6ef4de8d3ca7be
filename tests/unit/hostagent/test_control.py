# SPDX-License-Identifier: Apache-2.0
import platform
from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from sluice.dataplane import congestion
from sluice.dataplane.congestion import ControlSettings
from sluice.hostagent import control
from sluice.hostagent.control import HostControl


@pytest.fixture
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file in place of the namespace's default."""
    path = tmp_path / "tcp_congestion_control"
    path.write_text("reno\n")
    monkeypatch.setattr(control, "_DEFAULT", path)
    return path


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The controls that the kernel offers."""
    names = {"cubic", "reno"}
    monkeypatch.setattr(control, "_usable", lambda name: name in names)
    return names


def test_use__makes_a_control_of_the_kernel_the_default(default: Path, kernel: set[str]) -> None:
    host = HostControl()
    host.use("cubic")
    assert (host.in_force, host.fallback_reason, default.read_text()) == ("cubic", "", "cubic")
    host.restore()
    assert default.read_text() == "reno"


class Entry:
    """In place of dataplane.host.HostEntry: what was written."""

    def __init__(self) -> None:
        self.written: list[ControlSettings | str] = []

    def __call__(self) -> Self:
        return self

    def set(self, settings: ControlSettings, others: ControlSettings | None) -> None:
        assert others is None or replace(others, tags=settings.tags) == settings
        self.written.append(settings)

    def forget(self) -> None:
        self.written.append("forgotten")

    def close(self) -> None:
        pass


def test_use__writes_the_settings_when_they_change(
    default: Path, kernel: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Registered:
        def __init__(self, name: str) -> None:
            kernel.add(name)

        def ensure(self) -> None:
            pass

        close = ensure

    entry, fast, late = Entry(), ControlSettings(8), ControlSettings(4, forgets_late=True)
    monkeypatch.setattr(congestion, "CongestionControl", Registered)
    monkeypatch.setattr(congestion, "available", lambda: kernel)
    monkeypatch.setattr(congestion, "HostEntry", entry)
    host = HostControl()
    for name, settings in (
        ("sluice_ucp", fast),
        ("sluice_ucp", fast),
        ("sluice_ucp", late),
        ("cubic", late),
        ("cubic", ControlSettings()),
    ):
        host.use(name, settings)
    assert entry.written == [
        replace(fast, control="sluice_ucp"),
        replace(late, control="sluice_ucp"),
        ControlSettings(),
    ]
    host.use("sluice_dctcp", ControlSettings())
    host.restore()
    assert entry.written[3:] == [ControlSettings(control="sluice_dctcp"), "forgotten"]


@pytest.mark.parametrize(
    ("use_bpf", "extra", "expected", "reasons"),
    [
        (True, {"dctcp"}, "dctcp", ["Linux 5.10.0-30-amd64", "boot Linux 5.13 or later"]),
        (True, set(), "cubic", ["boot Linux 5.13 or later"]),
        (False, set(), "cubic", ["switched off"]),
    ],
)
def test_use__without_struct_ops_falls_back_with_the_reason(
    default: Path,
    kernel: set[str],
    monkeypatch: pytest.MonkeyPatch,
    use_bpf: bool,
    extra: set[str],
    expected: str,
    reasons: list[str],
) -> None:
    monkeypatch.setattr(platform, "release", lambda: "5.10.0-30-amd64")
    monkeypatch.setattr(congestion, "available", lambda: ["reno", "cubic"])
    kernel |= extra
    host = HostControl(use_bpf)
    host.use("sluice_dctcp")
    assert (host.requested, host.in_force, default.read_text()) == ("sluice_dctcp", expected, expected)
    assert all(reason in host.fallback_reason for reason in reasons)
    host.use("cubic")
    assert host.fallback_reason == ""


def test_restore__replaces_a_control_that_a_killed_agent_left(default: Path, kernel: set[str]) -> None:
    default.write_text("sluice_dctcp\n")
    HostControl().restore()
    assert default.read_text() == "cubic"


def test_set_default__reno_if_the_kernel_refuses_the_control(
    default: Path, kernel: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine does not allow the control as a default of namespaces."""
    default.write_text("sluice_dctcp")
    write = Path.write_text

    def restricted(path: Path, text: str) -> int:
        if text == "cubic":
            raise PermissionError(1, "Operation not permitted")
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", restricted)
    host = HostControl()
    host.use("cubic")
    assert (host.in_force, host.default, host.fallback_reason) == ("cubic", "reno", "")
    assert default.read_text() == "reno"
