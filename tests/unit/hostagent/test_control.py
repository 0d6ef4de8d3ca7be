# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from hostagent import control
from hostagent.control import HostControl
from policy.controls import fallback_of
from policy.errors import EnvironmentLacking


@pytest.fixture
def default(tmp_path, monkeypatch):
    """The namespace's default, in a file of ours."""
    path = tmp_path / "tcp_congestion_control"
    path.write_text("reno\n")
    monkeypatch.setattr(control, "_DEFAULT", path)
    return path


@pytest.fixture
def kernel(monkeypatch):
    """The kernel's own controls."""
    names = {"cubic", "reno"}
    monkeypatch.setattr(control, "_usable", lambda name: name in names)
    return names


def test_fallback_of__what_the_schemes_name():
    assert fallback_of("sluice_dctcp") == "dctcp"
    assert fallback_of("sluice_unknown") == "cubic"


def test_want__a_control_of_the_kernel_is_made_the_default(default, kernel):
    host = HostControl()
    host.want("cubic")
    assert (host.in_force, host.fallback_reason) == ("cubic", "")
    assert default.read_text() == "cubic"
    host.restore()
    assert default.read_text() == "reno"


@pytest.mark.parametrize(("extra", "expected"), [({"dctcp"}, "dctcp"), (set(), "cubic")])
def test_want__without_struct_ops_falls_back_and_says_so(default, kernel, monkeypatch, extra, expected):
    class Lacking:
        def __init__(self, name: str) -> None:
            raise EnvironmentLacking("this kernel has no struct_ops")

    monkeypatch.setattr(control, "CongestionControl", Lacking)
    kernel |= extra
    host = HostControl()
    host.want("sluice_dctcp")
    assert (host.wanted, host.in_force) == ("sluice_dctcp", expected)
    assert "no struct_ops" in host.fallback_reason
    assert default.read_text() == expected
    host.want("cubic")
    assert host.fallback_reason == ""


def test_want__with_bpf_switched_off(default, kernel):
    host = HostControl(use_bpf=False)
    host.want("sluice_dctcp")
    assert host.in_force == "cubic"
    assert "switched off" in host.fallback_reason


def test_restore__a_default_of_ours_was_left_by_a_killed_agent(default, kernel):
    default.write_text("sluice_dctcp\n")
    HostControl().restore()
    assert default.read_text() == "cubic"


def test_set_default__what_may_not_be_the_default_leaves_reno(default, kernel, monkeypatch):
    """A control that the machine does not allow in namespaces."""
    default.write_text("sluice_dctcp")
    write = Path.write_text

    def restricted(path, text):
        if text == "cubic":
            raise PermissionError(1, "Operation not permitted")
        return write(path, text)

    monkeypatch.setattr(Path, "write_text", restricted)
    host = HostControl()
    host.want("cubic")
    assert (host.in_force, host.default, host.fallback_reason) == ("cubic", "reno", "")
    assert default.read_text() == "reno"
