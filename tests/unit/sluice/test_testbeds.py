# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

import json
from pathlib import Path
from threading import Timer

import pytest

from sluice import topologies
from sluice.commands.inside import Running, chosen_testbed
from sluice.policy.errors import FieldError, SluiceError
from sluice.topologies.settings import Settings

ONE = topologies.build("single", hosts=2)


def bed(pid: int) -> Running:
    folder = Path(f"/tmp/bed-{pid}")
    return Running(pid, Settings(run_dir=folder, log_dir=folder), ONE)


def test_chosen_testbed__the_only_one_or_the_one_that_is_named() -> None:
    assert chosen_testbed([bed(7)], None).pid == 7
    assert chosen_testbed([bed(7), bed(9)], 9).pid == 9


def test_chosen_testbed__what_is_unclear_is_said_with_what_there_is() -> None:
    with pytest.raises(SluiceError, match="sluice demo"):
        chosen_testbed([], None)
    with pytest.raises(FieldError, match=r"7 \(single with 2 hosts, /tmp/bed-7\); 9 "):
        chosen_testbed([bed(7), bed(9)], None)
    with pytest.raises(FieldError, match="8 is not a testbed"):
        chosen_testbed([bed(7), bed(9)], 8)


def test_host_pid__an_unknown_host_is_answered_with_the_hosts() -> None:
    with pytest.raises(FieldError, match=r'no host "h11" \(did you mean h1\?\); its hosts are h1, h2'):
        bed(7).host_pid("h11")


def test_host_pid__waits_while_the_testbed_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starting = Running(7, Settings(run_dir=tmp_path, log_dir=tmp_path), ONE)
    monkeypatch.setattr(
        "sluice.commands.inside.translate", lambda pid, inner: {one: 4700 + one for one in inner}
    )

    def starts() -> None:
        starting.settings.status_file.write_text(json.dumps({"hosts": {"h1": 11}}))

    Timer(0.2, starts).start()
    assert starting.host_pid("h1") == 4711
    assert "waiting for h1" in capsys.readouterr().err
    assert starting.host_pid("h1") == 4711
    assert capsys.readouterr().err == ""
