# SPDX-License-Identifier: Apache-2.0
"""OpenFlow over TLS: the controller as a process, peers with the right certificate, another, and none."""

from __future__ import annotations

import socket
import ssl
import sys

import pytest

from controller import tls
from controller.openflow import frames as wire
from policy.errors import FieldError
from runtime.process import spawn
from runtime.wait import wait_until
from tests.fakes.certificates import Authority
from tests.fakes.peer import Peer, message
from tests.unit.controller.test_process import Process


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def strangers(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("strangers"), "strangers")


@pytest.fixture
def controller(tmp_path, ours):
    own = ours.issue("controller")
    arguments = ["--tls-key", own.key, "--tls-cert", own.certificate, "--tls-ca", ours.certificate]
    process = Process(tmp_path, arguments=map(str, arguments))
    yield process
    process.close()


def client(ours, pair=None):
    """A switch's side; it checks the controller's certificate, too."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(ours.certificate)
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


def test_a_switch_with_a_certificate_of_our_authority_is_served(controller, ours):
    context = client(ours, ours.issue("switch"))
    peer = Peer(controller.port, 1, wrap=context.wrap_socket)
    peer.run(controller.applied)
    controller.put_policy({"scheme": "tcp"})
    peer.run(controller.applied)
    assert not peer.closed


def test_tls_1_2_is_spoken_too(controller, ours):
    """What older switches have."""
    context = client(ours, ours.issue("switch"))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    Peer(controller.port, 1, wrap=context.wrap_socket).run(controller.applied)


def say_hello(raw, context):
    """Bytes that come back; OSError when there is no TLS connection to say anything on."""
    sock = context.wrap_socket(raw)
    sock.sendall(message(wire.HELLO))
    return sock.recv(8)


def refused(controller, context):
    """The peer sees an alert or the end, and never an OpenFlow message."""
    logged = controller.log.count("TLS:")
    with socket.create_connection(("127.0.0.1", controller.port)) as raw:
        raw.settimeout(10)
        try:
            said = say_hello(raw, context)
        except (ssl.SSLError, ConnectionError):
            said = b""
    assert said == b""
    wait_until(lambda: controller.log.count("TLS:") > logged, "it is logged")


def test_a_switch_without_a_certificate_is_refused(controller, ours):
    refused(controller, client(ours))
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in controller.log


def test_a_switch_with_another_authoritys_certificate_is_refused(controller, ours, strangers):
    refused(controller, client(ours, strangers.issue("switch")))
    assert "CERTIFICATE_VERIFY_FAILED" in controller.log


def test_a_switch_that_speaks_plainly_is_refused(controller):
    with socket.create_connection(("127.0.0.1", controller.port)) as sock:
        sock.settimeout(10)
        sock.sendall(message(wire.HELLO))
        said = b"".join(iter(lambda: sock.recv(4096), b""))
    assert message(wire.HELLO)[:2] not in said[:2]


def test_who_never_ends_the_tls_handshake_is_hung_up_on_and_others_are_served(controller, ours):
    with socket.create_connection(("127.0.0.1", controller.port)) as idler:
        idler.sendall(b"\x16\x03\x01")
        peer = Peer(controller.port, 1, wrap=client(ours, ours.issue("switch")).wrap_socket)
        peer.run(controller.applied)
        idler.settimeout(10)
        assert idler.recv(1) == b""


@pytest.mark.parametrize("given", [("key",), ("key", "cert"), ("ca",)])
def test_half_of_the_options_are_an_error_that_names_the_other_half(tmp_path, ours, given):
    argv = [sys.executable, "-m", "controller", "--store", f"sqlite:///{tmp_path}/s.db"]
    for name in given:
        argv += [f"--tls-{name}", str(ours.certificate)]
    process = spawn(argv, log_file=tmp_path / "log")
    assert process.wait(20) == 2
    said = (tmp_path / "log").read_text()
    assert said.startswith("controller: tls-")
    assert "--tls-key, --tls-cert, --tls-ca" in said


def test_server_context__names_the_file_that_cannot_be_used(tmp_path, ours, strangers):
    own, other = ours.issue("controller"), strangers.issue("controller")
    empty = tmp_path / "empty"
    empty.touch()
    for field, key, certificate, authority in (
        ("tls-key", tmp_path / "none", own.certificate, ours.certificate),
        ("tls-cert", other.key, own.certificate, ours.certificate),
        ("tls-ca", own.key, own.certificate, empty),
    ):
        with pytest.raises(FieldError) as caught:
            tls.server_context(key, certificate, authority)
        assert caught.value.field == field
