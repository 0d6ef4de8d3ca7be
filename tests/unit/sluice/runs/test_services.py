# SPDX-License-Identifier: Apache-2.0
"""The services around a run, and what prevents one."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from sluice.policy.errors import FieldError, SluiceError
from sluice.runs import obstacle
from sluice.runs.files import scenario_with
from sluice.runs.services import Load, Services, client_argv, parse_report, server_argv
from sluice.runs.testbed_run import run_on_testbed
from sluice.runtime.lifecycle import Watchdog
from sluice.runtime.process import spawn
from sluice.runtime.wait import wait_until
from tests.kit.bundles import document

pytestmark = pytest.mark.slow


def test_check__restarts_what_died() -> None:
    services = Services()
    service = services.start("sleeper", lambda _: spawn(["sleep", "600"]))
    first = service.process
    first.kill()
    first.wait()
    services.check()
    assert service.process.pid != first.pid
    services.check()
    assert service.restarts == 1, "what lives is left alone"
    services.stop()
    assert service.process.returncode is not None
    assert services.running == []


def test_check__gives_up_on_what_keeps_dying() -> None:
    services = Services()
    service = services.start("broken", lambda _: spawn(["false"]))

    def gives_up() -> str:
        service.process.wait()
        try:
            services.check()
        except SluiceError as error:
            return str(error)
        return ""

    assert "broken ends right after each start" in wait_until(gives_up, "the supervisor gives up")


_LIVING = """
import time
from sluice.runtime.lifecycle import Notifier
notifier = Notifier()
notifier.ready("lives")
while True:
    notifier.alive()
    time.sleep(0.05)
"""


def test_check__restarts_what_lives_but_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.runs.services.Watchdog", partial(Watchdog, limit_s=2.0))
    services = Services(tmp_path)
    service = services.start("living", lambda env: spawn([sys.executable, "-c", _LIVING], env=env))
    first = service.process

    def checked() -> int:
        services.check()
        return service.restarts

    with pytest.raises(TimeoutError):
        wait_until(checked, "a living process is restarted", timeout_s=4.0)
    os.kill(first.pid, signal.SIGSTOP)
    wait_until(checked, "the stopped process is restarted")
    assert first.returncode == -signal.SIGKILL
    assert service.process.poll() is None
    services.stop()
    assert list(tmp_path.iterdir()) == []


REPORT = """\
20261121140920,127.0.0.1,37536,127.0.0.1,5001,2,0.0-1.0,1310780,10486240
20261121140921,127.0.0.1,37536,127.0.0.1,5001,2,1.0-2.0,1310720,10485760
20261121140921,127.0.0.1,37536,127.0.0.1,5001,2,0.0-2.0,2752572,11007756
20261121140922,127.0.0.1,375"""


def test_parse_report__without_the_sum_and_the_torn_line() -> None:
    assert parse_report(REPORT) == [(0.0, 1.0, 1310780), (1.0, 2.0, 1310720)]
    assert parse_report("") == []


def test_commands__both_ends_select_the_control_and_the_rate_is_in_bits() -> None:
    load = Load("h2", "h1", "10.0.0.1", "sluice_dctcp", rate_bps=5_000_000, port=5101)
    for argv in (client_argv(load), server_argv(load)):
        assert argv[argv.index("-Z") + 1] == "sluice_dctcp"
        assert argv[argv.index("-p") + 1] == "5101"
    client = client_argv(load)
    assert client[client.index("-b") + 1] == "5000000"
    assert client[client.index("-c") + 1] == "10.0.0.1"
    assert "-b" not in client_argv(Load("h2", "h1", "10.0.0.1", None))


ROOT = Path(__file__).parents[4]


@pytest.fixture
def able(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Make this machine look as if nothing were denied."""
    types = tmp_path / "vmlinux"
    types.touch()
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(obstacle, "KERNEL_TYPES", types)
    monkeypatch.setattr(obstacle, "_may_make_namespaces", lambda: True)
    monkeypatch.setattr(obstacle, "_may_use_bpf", lambda: True)
    monkeypatch.setattr(obstacle, "PROGRAMS", {"sh": "a shell"})
    return monkeypatch


def test_obstacle__names_the_first_thing_that_is_denied(able: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert obstacle.obstacle() is None
    able.setattr(obstacle, "PROGRAMS", {"no-such-program": "Open vSwitch"})
    assert obstacle.kernel_obstacle() is None
    assert obstacle.obstacle() == "Open vSwitch is not installed"
    able.setattr(obstacle, "_may_use_bpf", lambda: False)
    assert obstacle.obstacle() == "this container may not use BPF"
    able.setattr(obstacle, "_may_make_namespaces", lambda: False)
    assert obstacle.obstacle() == "this container may not make namespaces"
    able.setattr(obstacle, "KERNEL_TYPES", tmp_path / "none")
    assert obstacle.obstacle() == "a kernel without BTF"
    able.setattr(os, "geteuid", lambda: 1000)
    assert obstacle.obstacle() == "no root rights"


def test_main__without_root_and_without_any_package() -> None:
    """`make demo` asks with the system's Python before anything is installed."""
    script = f"import os; os.geteuid() or os.setuid(65534); import sys; sys.path.insert(0, {str(ROOT)!r}); "
    script += "from sluice.runs.obstacle import main; sys.exit(main())"
    asked = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script], capture_output=True, text=True, check=False
    )
    assert (asked.returncode, asked.stdout) == (1, "no root rights\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give up capabilities")
def test_kernel_obstacle__root_without_capabilities_may_not_make_namespaces() -> None:
    argv = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all", sys.executable]
    asked = subprocess.run(
        [*argv, "-m", "sluice.runs.obstacle"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert asked.stdout in {"this container may not make namespaces\n", "a kernel without BTF\n"}


def test_run_on_testbed__refuses_what_its_ports_cannot_do_and_leaves_earlier_results_alone(
    tmp_path: Path,
) -> None:
    resolved = scenario_with(document("d3"))
    earlier = tmp_path / "out" / "summary.json"
    earlier.parent.mkdir()
    earlier.write_text("{}")
    with pytest.raises(FieldError, match=r"d3 needs explicit rates.*--on simulator"):
        run_on_testbed(resolved, earlier.parent)
    assert earlier.read_text() == "{}"
