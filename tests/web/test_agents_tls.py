# SPDX-License-Identifier: Apache-2.0
"""Agents over TLS at a real web process: enrolment, names, renewal, revocation, other authorities."""

import json
import ssl
import stat
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import requests

from sluice.policy.errors import SluiceError
from sluice.policy.wire.access import Holder, Token
from sluice.policy.wire.agents import heartbeat_document
from sluice.runs.services import service_argv
from sluice.runtime.agent_identity import Identity, identity_for
from sluice.runtime.certificates import load_key, pem, signing_request
from sluice.runtime.command import run
from sluice.runtime.http_client import HttpClient, ServerAway
from sluice.runtime.process import spawn, stop
from sluice.runtime.token_file import write_private
from sluice.runtime.wait import wait_until
from sluice.webui.authority import Authority
from tests.kit.heartbeats import host_heartbeat
from tests.unit.webui.records import record
from tests.web.agents_web import WEB1, Web, deliver, error
from tests.web.conftest import PATIENCE_S


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    server = Web(tmp_path_factory.mktemp("web"))
    server.start()
    yield server
    server.kill()


def test_enrolment__gives_a_certificate_and_keeps_the_key(web: Web, tmp_path: Path) -> None:
    identity = web.enrolled(tmp_path / "id")
    for file in (tmp_path / "id" / "key.pem", web.authority / "authority.pem", web.authority / "web.pem"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    answer = deliver(web.client(identity), record("tls/1", src="web1"), received("tls/2", dst="web1"))
    assert answer.json() == {"accepted": 2, "known": 0}
    listed = web.get("certificates")["certificates"]
    assert [(one["name"], one["kind"], one["state"]) for one in listed] == [("web1", "host", "valid")]
    assert {"agent": "web1", "agent_kind": "host"}.items() <= web.events("agent-enrolled")[0].items()


def received(identity: str, **changes: Any) -> dict[str, Any]:
    """Return the record of a watched flow as the receiver's agent makes it."""
    return record(identity, source="watched", retransmissions=None, ideal_us=None, **changes)


def test_enrolment__token_works_once_but_a_restart_may_repeat_it(web: Web, tmp_path: Path) -> None:
    token = web.token()
    first = identity_for(web.target, tmp_path / "first", WEB1, token)
    certificate = (tmp_path / "first" / "certificate.pem").read_bytes()
    with pytest.raises(SluiceError, match="used already; make another"):
        identity_for(web.target, tmp_path / "second", WEB1, token)
    again = identity_for(web.target, tmp_path / "first", WEB1, token)
    assert first is not None
    assert again is not None
    assert (tmp_path / "first" / "certificate.pem").read_bytes() == certificate


def test_enrolment__one_of_two_racing_uses_wins(web: Web, tmp_path: Path) -> None:
    token, barrier = web.token("racer"), threading.Barrier(2)
    results: list[str] = []

    def race(number: int) -> None:
        barrier.wait()
        try:
            identity_for(web.target, tmp_path / str(number), Holder("racer", "host"), token)
            results.append("won")
        except SluiceError as lost:
            results.append(str(lost))

    threads = [threading.Thread(target=race, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results)[1] == "won"
    assert "used already" in sorted(results)[0]


def test_enrolment__expired_or_replaced_token(web: Web, tmp_path: Path) -> None:
    token = Token.parse(web.token("late", valid_s=1))
    late = Holder("late", "host")
    wait_until(lambda: _expired(token), "the token expires")
    with pytest.raises(SluiceError, match="--enrol: the token has expired"):
        identity_for(web.target, tmp_path, late, token.text())
    forged = replace(token, expires_at=token.expires_at + 3600)
    with pytest.raises(SluiceError, match="refuses the token: the enrolment token has expired"):
        identity_for(web.target, tmp_path, late, forged.text())
    older, _newer = web.token("late"), web.token("late")
    with pytest.raises(SluiceError, match="is not known here"):
        identity_for(web.target, tmp_path, late, older)


def _expired(token: Token) -> bool:
    return time.time() > token.expires_at


def test_enrolment__wrong_fingerprint_sends_no_secret(web: Web, tmp_path: Path) -> None:
    token = web.token("careful")
    wrong = replace(Token.parse(token), authority="ab" * 32)
    with pytest.raises(SluiceError, match="nothing was sent to it"):
        identity_for(web.target, tmp_path, Holder("careful", "host"), wrong.text())
    assert identity_for(web.target, tmp_path, Holder("careful", "host"), token) is not None


def test_enrolment__wrong_name(web: Web, tmp_path: Path) -> None:
    with pytest.raises(SluiceError, match="the token is for the agent 'other' of kind 'host'"):
        identity_for(web.target, tmp_path, WEB1, web.token("other"))
    renamed = replace(Token.parse(web.token("other")), name="web1")
    with pytest.raises(
        SluiceError, match="asks for the agent 'web1' of kind 'host', but this caller is 'other'"
    ):
        identity_for(web.target, tmp_path, WEB1, renamed.text())


def test_agent_without_certificate(web: Web, tmp_path: Path) -> None:
    with pytest.raises(SluiceError, match="web1 is not enrolled; run `sluice enrol web1`"):
        identity_for(web.target, tmp_path, WEB1, None)
    bare = HttpClient(web.target, tls=_trust(web, tmp_path))
    assert error(deliver(bare, record("x"))) == (401, "no-certificate")
    assert error(bare.get("/api/v1/health")) == (403, "agents-only")


def _trust(web: Web, folder: Path) -> Any:
    def context() -> ssl.SSLContext:
        return ssl.create_default_context(cadata=(web.authority / "authority.pem").read_text())

    return context


def test_names__are_bound_to_the_certificate(web: Web, tmp_path: Path) -> None:
    client = web.client(web.enrolled(tmp_path, Holder("db1", "host")))
    beat = json.dumps(_host_beat()).encode()
    assert client.post("/api/v1/agents/db1", beat).ok
    assert error(client.post("/api/v1/agents/web9", beat)) == (403, "other-agent")
    refused = deliver(client, record("own", src="db1"), record("foreign", src="a", dst="b"))
    assert error(refused) == (403, "other-agent")
    assert refused.json()["error"]["index"] == 1
    assert error(client.get("/api/v1/health")) == (403, "agents-only")
    refusals = [event["reason"] for event in web.events("agent-refused") if event["agent"] == "db1"]
    assert any("not of web9" in reason for reason in refusals)
    assert any("no end of the flow a > b" in reason for reason in refusals)


def test_names__no_host_can_take_the_id_of_anothers_record(web: Web, tmp_path: Path) -> None:
    evil = web.client(web.enrolled(tmp_path / "evil", Holder("evil", "host")))
    true = web.client(web.enrolled(tmp_path / "true", Holder("true", "host")))
    assert deliver(evil, record("run/1", src="evil")).json()["accepted"] == 1
    first = record("run/1", src="true")
    assert deliver(true, first).json() == {"accepted": 1, "known": 0}
    assert deliver(true, first).json() == {"accepted": 0, "known": 1}
    assert error(deliver(true, {**first, "fct_us": 1.0})) == (409, "record-conflict")
    assert error(deliver(evil, record("true@run/2", src="evil"))) == (422, "invalid-field")
    stored = web.get("flows")["flows"]
    assert {"evil@run/1", "true@run/1"} <= {flow["id"] for flow in stored}


def test_names__a_heartbeat_shows_no_connections_of_others(web: Web, tmp_path: Path) -> None:
    client = web.client(web.enrolled(tmp_path, Holder("shown", "host")))
    status = [_with_connection("shown", "web7"), _with_connection("web7", "web8")]
    answers = [client.post("/api/v1/agents/shown", json.dumps(beat).encode()) for beat in status]
    assert answers[0].ok, answers[0].json()
    assert error(answers[1]) == (403, "other-agent")


def _with_connection(src: str, dst: str) -> dict[str, Any]:
    beat = _host_beat()
    ends = {"src": src, "src_port": 1024, "dst": dst, "dst_port": 80}
    numbers = {"bytes": 1, "rate_bps": 1, "started_at": 1.0, "deadline_at": None, "retransmissions": 0}
    connection = {"id": "watched/1", **ends, **numbers, "congestion_control": "cubic", "srtt_us": None}
    return {**beat, "watch": {**beat["watch"], "connections": [connection]}}


def test_names__port_agent_delivers_no_records(web: Web, tmp_path: Path) -> None:
    client = web.client(web.enrolled(tmp_path, Holder("rack1", "port")))
    assert error(deliver(client, record("p", src="rack1"))) == (403, "other-agent")
    assert error(client.post("/api/v1/agents/rack1", json.dumps(_host_beat()).encode())) == (
        403,
        "other-agent",
    )


def _host_beat() -> dict[str, Any]:
    return heartbeat_document(host_heartbeat())


def test_foreign_certificate__refused_in_the_handshake(web: Web, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    identity = web.enrolled(tmp_path / "id", Holder("spy", "host"))
    _certify_by(other, tmp_path / "id", identity)
    with pytest.raises(
        ServerAway, match="refuses this agent's certificate, because another authority issued it"
    ):
        deliver(web.client(identity), record("x", src="spy"))
    wait_until(
        lambda: any("certificate is refused" in event["reason"] for event in web.events("agent-refused")),
        "the event of the refused handshake",
    )


def _certify_by(other: Authority, folder: Path, identity: Identity) -> None:
    request = signing_request(load_key((folder / "key.pem").read_bytes()), identity.holder)
    made, _row = other.certify(request, identity.holder)
    (folder / "certificate.pem").write_bytes(pem(made))


def test_revocation__at_the_next_request_of_a_kept_connection(web: Web, tmp_path: Path) -> None:
    client = web.client(web.enrolled(tmp_path / "id", Holder("gone", "host")))
    assert deliver(client, record("gone/1", src="gone")).ok
    assert web.command("/api/v1/agents/gone/revocation").json() == {"revoked": 1}
    refused = deliver(client, record("gone/2", src="gone"))
    assert error(refused) == (403, "certificate-revoked")
    assert "this agent's certificate was revoked; enrol it again" in refused.json()["error"]["problem"]
    assert web.events("certificate-revoked")[-1] == {"agent": "gone", "by": "owner"}
    assert web.command("/api/v1/agents/gone/revocation").status_code == 404
    again = web.client(web.enrolled(tmp_path / "id", Holder("gone", "host")))
    assert deliver(again, record("gone/2", src="gone")).ok


def test_agent_process__renews_and_goes_on_when_revoked(tmp_path: Path) -> None:
    web = Web(tmp_path, life="4s")
    web.start()
    argv = [*service_argv("agent"), "--name", "web1", "--interface", "lo", "--no-bpf", "--no-realtime"]
    (tmp_path / "enrol").write_text(web.token())
    argv += ["--run-dir", str(tmp_path / "run"), "--web", web.target, "--enrol", str(tmp_path / "enrol")]
    log = tmp_path / "agent.log"
    agent = spawn(argv, log_file=log)
    try:
        wait_until(
            lambda: "certificate of this agent was renewed" in log.read_text(), "it renews", timeout_s=300
        )
        assert web.command("/api/v1/agents/web1/revocation").ok
        told = "this agent's certificate was revoked; enrol it again"
        wait_until(lambda: told in log.read_text(), "it says that it is revoked")
        assert "keeping the last settings" in log.read_text()
        assert agent.poll() is None
    finally:
        stop(agent)
        web.kill()


def test_plain_address__takes_no_documents_from_other_machines(web: Web) -> None:
    for name in ("X-Forwarded-For", "Forwarded"):
        answer = requests.post(
            f"{web.url}/api/v1/flows", json=[record("f")], headers={name: "192.0.2.7"}, timeout=PATIENCE_S
        )
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "agents-only")
    assert requests.get(f"{web.url}/api/v1/authority", timeout=PATIENCE_S).status_code == 403


# ── The last tests give the web process another authority ────────────────────────────────────────────────────────────


def test_another_authority__files_of_earlier_ones_do_no_harm(web: Web, tmp_path: Path) -> None:
    """An earlier version kept retired.pem and bridge.pem beside the authority, and trusted them."""
    identity = web.enrolled(tmp_path / "id")
    web.stop()
    earlier = Authority(tmp_path / "earlier")
    certificate = pem(earlier.signer.certificate)
    for name in ("retired.pem", "bridge.pem"):
        (web.authority / name).write_bytes(certificate)
    for path in (web.authority / "web.pem", tmp_path / "id" / "authorities.pem"):
        path.write_bytes(path.read_bytes() + certificate)
    web.start()
    client = web.client(identity)
    assert deliver(client, record("again/1", src="web1")).ok
    identity.renew(client)
    assert deliver(client, record("again/2", src="web1")).ok
    assert certificate not in (tmp_path / "id" / "authorities.pem").read_bytes()
    _certify_by(earlier, tmp_path / "id", identity)
    with pytest.raises(ServerAway, match="because another authority issued it"):
        deliver(web.client(identity), record("again/3", src="web1"))


def test_another_authority__is_another_enrolment_and_may_be_of_the_operators_own(
    web: Web, tmp_path: Path
) -> None:
    first, second = record("other/1", src="web1"), record("other/2", src="web1")
    identity = web.enrolled(tmp_path / "id")
    assert deliver(web.client(identity), first).ok
    web.stop()
    web.authority.rename(tmp_path / "earlier")
    web.authority.mkdir(mode=0o700)
    write_private(web.authority / "authority.pem", _operators_authority(tmp_path))
    web.start()
    with pytest.raises(ServerAway, match="not of the authority that this agent trusts"):
        deliver(web.client(identity), second)
    again = web.enrolled(tmp_path / "id")
    assert deliver(web.client(again), first, second).json() == {"accepted": 1, "known": 1}


def _operators_authority(folder: Path) -> bytes:
    """Return key and certificate of an authority that another one has certified."""
    new = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    root, made = folder / "root.pem", folder / "made.pem"
    root_key, key = root.with_suffix(".key"), made.with_suffix(".key")
    request = ["openssl", "req", "-x509", *new]
    run([*request, "-subj", "/CN=company", "-keyout", str(root_key), "-out", str(root)])
    signer = ["-CA", str(root), "-CAkey", str(root_key)]
    run([*request, "-subj", "/CN=fabric", *signer, "-keyout", str(key), "-out", str(made)])
    return key.read_bytes() + made.read_bytes()
