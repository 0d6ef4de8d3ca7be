# SPDX-License-Identifier: Apache-2.0
"""Commands that ask a running system, or run within one, and files that they cannot read."""

import json
import shutil
import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine

from sluice import cli, topologies
from sluice.commands import inside
from sluice.commands.access import rows
from sluice.commands.arguments import read_toml_file
from sluice.policy.errors import EnvironmentLacking, FieldError, SluiceError
from sluice.policy.network.description import SeenHost, SeenPort, SeenSwitch, Sightings
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.field_kinds import Override
from sluice.runs.files import read_document
from sluice.runtime.settings.service import from_file
from sluice.store.access import find_token
from sluice.store.desired import current_policy, current_version, mark_applied, put_policy, put_topology
from sluice.store.observed import current_network, put_sightings, put_switch
from sluice.topologies.settings import Settings
from sluice.webui.service import WebOptions
from tests.kit.known import known
from tests.web.synthetic import leaf_spine

Command = Callable[..., int]
MAC = "52:54:00:00:00:11"
PORTS = (SeenPort(1, "web1", 10**9, True), SeenPort(2, "up", 10**10, True))
SEEN = Sightings({0xF1: SeenSwitch(0xF1, "front", PORTS)}, {}, {MAC: SeenHost(MAC, (0xF1, 1), "192.0.2.11")})


@pytest.fixture
def remote(url: str, tmp_path: Path) -> list[str]:
    """The options that name the web process and the owner's token."""
    (tmp_path / "token").write_text("token")
    return ["--url", url, "--token-file", str(tmp_path / "token")]


@pytest.fixture
def sluice_network(remote: list[str], engine: Engine) -> Command:
    """`sluice network`, with a switch that the controller has reported."""
    put_sightings(engine, SEEN)
    return lambda *words: cli.main(["network", *remote, *words])


@pytest.fixture
def file(sluice_network: Command, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """What `discover` prints, in a file."""
    assert sluice_network("discover") == 0
    path = tmp_path / "network.toml"
    path.write_text(capsys.readouterr().out)
    return path


def test_discover__prints_a_description_that_agrees(
    sluice_network: Command, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = tomllib.loads(file.read_text())
    assert document["switch"][0]["port"] == [
        {"name": "web1", "rate": "1Gbit"},
        {"name": "up", "rate": "10Gbit"},
    ]
    assert sluice_network("check", str(file)) == 0
    assert "agrees with the switches" in capsys.readouterr().out


def test_apply__diff_and_remove(
    sluice_network: Command, file: Path, engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sluice_network("diff", str(file)) == 0
    assert '+name = "front"' in capsys.readouterr().out
    assert sluice_network("apply", str(file)) == 0
    sluice_network("diff", str(file))
    assert "+" not in capsys.readouterr().out.replace("\n+++", "")
    assert sluice_network("show") == 0
    assert "192.0.2.11" in capsys.readouterr().out
    assert sluice_network("remove") == 0
    assert known(current_network(engine)).network is None


def test_a_contradiction_is_exit_code_1(
    sluice_network: Command, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(file.read_text().replace('name = "up"', 'name = "uplink"'))
    assert sluice_network("check", str(file)) == 1
    assert "front:uplink: the switch has no port of this name" in capsys.readouterr().out.replace("\n", " ")
    assert sluice_network("apply", str(file)) == 1, "it is put in force all the same: the port may come"


def test_check__without_a_web_process_reads_the_file_alone(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["network", "--url", "http://127.0.0.1:9", "check", str(file)]) == 0
    assert "was not compared" in capsys.readouterr().out


NOW = 1_000_000.0


def agent(name: str, *, alive: bool = True) -> dict[str, object]:
    return {"name": name, "kind": "host", "alive": alive, "age_s": 1.2, "status": {"version": "2.0"}}


def test_rows__heartbeats_and_certificates_of_one_name_are_one_row() -> None:
    certificate = {"name": "web1", "kind": "host", "state": "valid", "ends_at": NOW + 86_400 * 2.5}
    revoked = {"name": "web2", "kind": "host", "state": "revoked", "ends_at": NOW + 86_400}
    found = rows([agent("web1"), agent("h9", alive=False)], [revoked, certificate], NOW)
    assert found == [
        ("h9", "host", "away", "none (this machine)", "-", "1 s ago", "2.0"),
        ("web1", "host", "up", "valid", "in 2.5 days", "1 s ago", "2.0"),
        ("web2", "host", "no heartbeat yet", "revoked", "in 1.0 days", "-", "-"),
    ]


def test_created_once_listed_and_revoked(
    remote: list[str], engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*words: str) -> int:
        return cli.main(["token", *remote, *words])

    assert command("create", "--role", "read", "--expires", "30d", "--name", "wall") == 0
    token = capsys.readouterr().out.strip()
    found = known(find_token(engine, token))
    assert found.role == "read"
    assert found.expires_at - found.created_at == pytest.approx(30 * 86_400, abs=60)
    assert command("list") == 0
    listed = capsys.readouterr().out
    assert "wall" in listed
    assert "in 30.0 days" in listed
    assert token not in listed
    assert command("revoke", "wall") == 0
    assert find_token(engine, token) is None
    assert command("revoke", "wall") == 2
    assert "no token named wall is in force" in capsys.readouterr().err


ONE = topologies.build("single", hosts=2)


def test_port_named__or_what_there_is() -> None:
    assert inside.port_named(ONE, "s1:2").interface
    with pytest.raises(FieldError, match="s1:1, s1:2"):
        inside.port_named(ONE, "s1:9")


def test_capture__without_tcpdump_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(EnvironmentLacking, match="apt-get install tcpdump"):
        inside.capture("s1:1", 1, tmp_path / "x.pcap")


def test_parser__all_words_after_the_dashes_are_the_programs() -> None:
    given = inside.exec_parser().parse_args(
        ["h1", "--testbed", "7", "--", "sh", "-c", "x", "--", "--testbed"]
    )
    assert (given.host, given.testbed) == ("h1", 7)
    assert given.program == ["sh", "-c", "x", "--", "--testbed"]


@pytest.mark.parametrize("words", [["h1", "--"], ["h1", "iperf", "-c", "h3"]])
def test_parser__without_a_program_the_message_shows_one(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        inside.exec_parser().parse_args(words)
    assert "sluice exec h1 -- ping -c 3 h3" in capsys.readouterr().err


def bed(pid: int) -> inside.Running:
    folder = Path(f"/tmp/bed-{pid}")
    return inside.Running(pid, Settings(run_dir=folder, log_dir=folder), ONE)


def test_chosen_testbed__the_only_one_or_the_one_that_is_named() -> None:
    assert inside.chosen_testbed([bed(7)], None).pid == 7
    assert inside.chosen_testbed([bed(7), bed(9)], 9).pid == 9


def test_chosen_testbed__what_is_unclear_is_said_with_what_there_is() -> None:
    with pytest.raises(SluiceError, match="sluice demo"):
        inside.chosen_testbed([], None)
    with pytest.raises(FieldError, match=r"7 \(single with 2 hosts, /tmp/bed-7\); 9 "):
        inside.chosen_testbed([bed(7), bed(9)], None)
    with pytest.raises(FieldError, match="8 is not a testbed"):
        inside.chosen_testbed([bed(7), bed(9)], 8)


def test_host_pid__an_unknown_host_is_answered_with_the_hosts() -> None:
    with pytest.raises(FieldError, match=r'no host "h11" \(did you mean h1\?\); its hosts are h1, h2'):
        bed(7).host_pid("h11")


def test_host_pid__waits_while_the_testbed_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    starting = inside.Running(7, Settings(run_dir=tmp_path, log_dir=tmp_path), ONE)
    monkeypatch.setattr(
        "sluice.commands.inside.translate", lambda pid, inner: {one: 4700 + one for one in inner}
    )

    def starts() -> None:
        starting.settings.status_file.write_text(json.dumps({"hosts": {"h1": 11}}))

    threading.Timer(0.2, starts).start()
    assert starting.host_pid("h1") == 4711
    assert "waiting for h1" in capsys.readouterr().err
    assert starting.host_pid("h1") == 4711
    assert capsys.readouterr().err == ""


# ── Commands report a file that the TOML reader cannot take, and name it ───────────────────────


DEEP, LONG = "a = " + "[" * 5000, "a = " + "9" * 5000


@pytest.mark.parametrize("text", [DEEP, LONG])
@pytest.mark.parametrize("read", [read_document, read_toml_file, lambda path: from_file(WebOptions, path)])
def test_commands__report_it(read: Callable[[Path], object], text: str, tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_text(text)
    with pytest.raises(SluiceError, match=r"file\.toml"):
        read(path)


@pytest.fixture
def sluice_policy(remote: list[str], engine: Engine) -> Iterator[Command]:
    """`sluice policy`, with a controller that applies every version at once."""
    stop = threading.Event()

    def apply_at_once() -> None:
        while not stop.wait(0.01):
            mark_applied(engine, current_version(engine))

    controller = threading.Thread(target=apply_at_once)
    controller.start()
    yield lambda *words: cli.main(["policy", *remote, *words])
    stop.set()
    controller.join()


def in_force(engine: Engine) -> Policy:
    return known(current_policy(engine)).policy


def put(sluice_policy: Command, folder: Path, text: str) -> None:
    """Put the policy of a file in force."""
    (folder / "policy.toml").write_text(text)
    assert sluice_policy("set", str(folder / "policy.toml")) == 0


PIAS = 'scheme = "pias"\nthresholds = ["10KB"]\nqueues = 2\n'


def test_policy__waits_for_every_switch_and_names_those_that_lack_it(
    remote: list[str], engine: Engine, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["policy", *remote, "act", "--at"]
    put_policy(engine, Policy.from_document(tomllib.loads(PIAS)), "test")
    put_topology(engine, leaf_spine())
    for switch in leaf_spine().switches:
        put_switch(engine, switch.dpid, switch.name, connected=True, policy_version=3)
    slow = threading.Timer(3.5, mark_applied, (engine, 2))
    slow.start()
    assert cli.main([*command, "s1:1"]) == 0
    assert "version 2 is applied" in capsys.readouterr().out
    slow.join()
    away = leaf_spine().switches[1]
    put_switch(engine, away.dpid, away.name, connected=False, policy_version=1)
    assert cli.main([*command, "s1:2"]) == 0
    assert f"version 3 is pending\nwarning: it is not yet in force at {away.name};" in capsys.readouterr().out


def test_a_canary_and_the_way_back(sluice_policy: Command, engine: Engine, tmp_path: Path) -> None:
    put(sluice_policy, tmp_path, PIAS)
    assert sluice_policy("act", "--at", "rack1:3", "rack1:4") == 0
    assert (in_force(engine).scheme, in_force(engine).acts_at) == ("pias", ("rack1:3", "rack1:4"))
    assert sluice_policy("rollback") == 0
    assert in_force(engine).acts_at == ("*",)
    assert sluice_policy("act", "--at", "rack1:3", "--on", "web*") == 0
    assert [in_force(engine).acts_on_host(name) for name in ("web1", "db1")] == [True, False]
    assert sluice_policy("act", "--nowhere") == 0
    assert in_force(engine).only_watches
    assert not in_force(engine).acts_on_host("web1")
    assert sluice_policy("rollback", "2") == 0
    assert in_force(engine).acts_at == ("rack1:3", "rack1:4")


def test_rollback__says_which_version_it_repeats_and_what_another_one_does(
    sluice_policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(sluice_policy, tmp_path, PIAS)
    assert sluice_policy("rollback") == 2
    assert "version 1 has the first policy: there is none before it" in capsys.readouterr().err
    sluice_policy("set", "thresholds=20KB")
    sluice_policy("set", "thresholds=30KB")
    for repeated, undone, thresholds in ((2, 3, (20_000,)), (1, 4, (10_000,))):
        capsys.readouterr()
        assert sluice_policy("rollback") == 0
        said = " ".join(capsys.readouterr().out.split())
        assert f"it repeats version {repeated}. `sluice policy rollback {undone}` undoes that" in said
        assert in_force(engine).thresholds == thresholds
    assert sluice_policy("rollback") == 2
    assert "version 5 has the first policy: there is none before it" in capsys.readouterr().err
    assert sluice_policy("rollback", "1") == 0
    assert "version 1 is the same policy; give the number of another version" in capsys.readouterr().out
    assert sluice_policy("rollback", "9") == 2
    assert "there is no version 9; the newest are 5, 4, 3, 2, 1" in capsys.readouterr().err
    assert sluice_policy("rollback", "3") == 0
    assert in_force(engine).thresholds == (30_000,)


def test_set__changes_some_keys_and_prints_what_changes(
    sluice_policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(sluice_policy, tmp_path, PIAS + 'buffer = "60KB"\n')
    capsys.readouterr()
    assert sluice_policy("set", "queues=3", "thresholds=10KB,1MB", "mark_at=18KB") == 0
    now = in_force(engine)
    assert (now.queues, now.thresholds, now.mark_at, now.buffer) == (3, (10_000, 1_000_000), 18_000, 60_000)
    lines = [line.split("│")[1:4] for line in capsys.readouterr().out.splitlines() if "│" in line]
    assert [[cell.strip() for cell in line] for line in lines] == [
        ["queues", "2", "3"],
        ["thresholds", '["10KB"]', '["10KB", "1MB"]'],
        ["mark_at", '"97500B"', '"18KB"'],
        ["untagged_queue", "1", "2"],
    ]
    assert sluice_policy("set", "thresholds=20KB", "queues=2") == 0
    assert in_force(engine).thresholds == (20_000,)


def test_set__what_changes_nothing_makes_no_version(
    sluice_policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(sluice_policy, tmp_path, 'scheme = "dctcp"\n')
    assert sluice_policy("set", "mark_at=97500B") == 0
    assert "nothing changes" in capsys.readouterr().out
    assert current_version(engine) == 1


def test_freeze_and_unfreeze(
    sluice_policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put_topology(engine, topologies.build("single", hosts=2))
    put(sluice_policy, tmp_path, 'scheme = "mlfq-adaptive"\n')
    assert sluice_policy("freeze", "s1:2", "s1:9") == 2
    assert 'overrides[0].ports: the network has no port "s1:9"' in capsys.readouterr().err
    put_topology(engine, topologies.build("single", hosts=9))
    assert sluice_policy("freeze", "s1:2", "s1:9") == 0
    assert [in_force(engine).is_frozen(port) for port in ("s1:1", "s1:2")] == [False, True]
    put_topology(engine, topologies.build("single", hosts=2))
    assert sluice_policy("unfreeze", "s1:2") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert 'warning: overrides[0].ports: the network has no port "s1:9"' in said
    assert in_force(engine).overrides == (Override(("s1:9",), None),)
    assert sluice_policy("unfreeze", "s1:2") == 2
    assert "s1:2: no override freezes s1:2 by this name; frozen are s1:9" in capsys.readouterr().err


def test_set__a_wrong_key_is_named_as_written(
    sluice_policy: Command, engine: Engine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(sluice_policy, tmp_path, 'scheme = "pias"\n')
    for words, message in (
        (["mark_att=1KB"], "mark_att: is not a key here (did you mean mark_at?)"),
        (["scheme=tcp", "thresholds=10KB"], "thresholds: scheme tcp has no thresholds"),
        (["mark_at=1KB", "other.toml"], 'give one file, or only KEY=VALUE; "other.toml" has no ='),
    ):
        assert sluice_policy("set", *words) == 2
        assert message in capsys.readouterr().err
    assert current_version(engine) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["act", "--nowhere"], "there is no policy yet: put one in force with `sluice policy set FILE`"),
        (["rollback"], "there is no policy yet: put one in force"),
        (["set", "mark_at=18KB"], "there is no policy yet"),
    ],
)
def test_errors_name_the_remedy(
    sluice_policy: Command, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sluice_policy(*words) == 2
    assert message in capsys.readouterr().err
