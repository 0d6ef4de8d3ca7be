# SPDX-License-Identifier: Apache-2.0
"""No token, password or private key is in what processes write, answer or show as their command line."""

import base64
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest
import requests

from sluice.policy.wire.access import Holder, Token
from sluice.runtime.process import spawn, stop
from sluice.simulator.build import build
from tests.unit.webui.records import record
from tests.web.agents_web import Web, deliver, error
from tests.web.conftest import PATIENCE_S, TOKEN, Server, eventually, free_address

READABLE = ("health", "policy", "audit", "tokens", "certificates", "flows", "agents", "events?count=1")
PASSWORD = "hunter2-of-the-store"


def written(folder: Path) -> dict[Path, bytes]:
    """Return what is in all files of a folder."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files}


def command_lines() -> dict[Path, bytes]:
    """Return the command line of every process of this machine."""
    found = {}
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found[path] = path.read_bytes()
        except OSError:  # it has ended
            continue
    return found


def places_of(secrets: Iterable[bytes], texts: dict[Path, bytes]) -> set[str]:
    """Return the names of the texts that hold one of the secrets."""
    return {path.name for path, text in texts.items() if any(secret in text for secret in secrets)}


def key_forms(pem: bytes) -> list[bytes]:
    """Return what the private key of a file looks like: a line of its text, and its last bytes."""
    block = re.search(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----(.*?)-----END", pem, re.DOTALL)
    assert block is not None
    lines = block[1].split()
    return [lines[1], base64.b64decode(b"".join(lines))[-40:]]


def test_web_process__keeps_every_secret(tmp_path: Path) -> None:
    web = Web(tmp_path)
    web.start()
    try:
        owner = {"Authorization": f"Bearer {TOKEN}"}
        made = web.command("/api/v1/tokens", {"name": "reader", "role": "read", "valid_s": 600}).json()[
            "token"
        ]
        enrolment = Token.parse(web.token("spare")).secret
        identity = web.enrolled(tmp_path / "agent", Holder("web1", "host"))
        client = web.client(identity)
        assert deliver(client, record("s/1", src="web1")).ok
        assert error(deliver(client, record("s/2", src="web9"))) == (403, "other-agent")
        policy = {"scheme": "pias"}
        assert requests.put(f"{web.url}/api/v1/policy?wait_s=0", json=policy, headers=owner, timeout=300).ok
        as_reader = {"Authorization": f"Bearer {made}"}
        refused = requests.put(f"{web.url}/api/v1/policy", json=policy, headers=as_reader, timeout=300)
        assert refused.status_code == 403
        answers = [requests.get(f"{web.url}/api/v1/{path}", headers=owner, timeout=300) for path in READABLE]
        answers += [
            requests.get(f"{web.url}/{path}", timeout=300) for path in ("metrics", "openapi/openapi.json")
        ]
        running = command_lines()
    finally:
        stop(web.process, grace_s=20)
    keys = [tmp_path / "agent" / "key.pem", web.authority / "authority.pem", web.authority / "web.pem"]
    secrets = [TOKEN.encode(), made.encode(), enrolment.encode()]
    secrets += [form for key in keys for form in key_forms(key.read_bytes())]
    assert not any(secret in answer.content for secret in secrets for answer in answers)
    assert not places_of(secrets, running)
    assert places_of(secrets, written(tmp_path)) == {"token", *(key.name for key in keys)}
    assert all(stat.S_IMODE(key.stat().st_mode) == 0o600 for key in keys)


def test_web_process__an_unreachable_store_shows_no_password(tmp_path: Path) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    address = free_address()
    server = Server(
        tmp_path,
        f"postgresql+psycopg://sluice@{address}/sluice",
        "--store-password-file",
        str(tmp_path / "password"),
    )
    with pytest.raises(RuntimeError, match="ended") as ended:
        server.start()
    assert PASSWORD not in str(ended.value)
    assert places_of([PASSWORD.encode()], written(tmp_path)) == {"password"}


def test_simulated_demonstration__leaves_no_token(tmp_path: Path) -> None:
    build()
    listen = free_address()
    log = tmp_path / "demo.log"
    temporary = tempfile.mkdtemp(prefix="s", dir="/tmp")  # paths of Unix sockets must be short
    argv = [
        "demo",
        "--on",
        "simulator",
        "--duration",
        "2",
        "--listen",
        listen,
        "--out",
        str(tmp_path / "out"),
    ]
    demo = spawn(
        [sys.executable, "-m", "sluice", *argv], log_file=log, env={**os.environ, "TMPDIR": temporary}
    )
    try:
        eventually(lambda: "is the token in" in log.read_text(), "the path of the token")
        path = Path("".join(log.read_text().split("is the token in", 1)[1].split("\n", 1)[0].split()))
        token = path.read_text().strip()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        answer = requests.put(
            f"http://{listen}/api/v1/policy?wait_s=0",
            json={"scheme": "dctcp"},
            headers={"Authorization": f"Bearer {token}"},
            timeout=PATIENCE_S,
        )
        assert answer.ok, answer.text
        assert not places_of([token.encode()], command_lines())
        eventually(lambda: demo.poll() is not None, "the end")
    finally:
        stop(demo)
    left = written(tmp_path) | written(Path(temporary))
    shutil.rmtree(temporary)
    assert demo.returncode == 0, log.read_text()
    assert {"flows.parquet", "meta.json", "web.log", "demo.log"} <= {path.name for path in left}
    assert places_of([token.encode()], left) == set()
