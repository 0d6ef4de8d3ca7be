# SPDX-License-Identifier: Apache-2.0
"""OpenFlow over TLS: peers with the right certificate, with another one, and with none."""

import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from sluice.controller import connection
from sluice.controller.openflow.frames import MessageType, message
from sluice.controller.service import SERVICE
from sluice.policy.errors import FieldError
from sluice.runtime.wait import wait_until
from tests.fakes.certificates import Authority, Pair
from tests.unit.controller.processes import Process, controller_process, serves

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ours"), "ours")


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("strangers"), "strangers")


@pytest.fixture(scope="module")
def switch(ours: Authority) -> Pair:
    return ours.issue("switch")


@pytest.fixture(scope="module")
def controller(tmp_path_factory: pytest.TempPathFactory, ours: Authority) -> Iterator[Process]:
    """One controller for all switches of this file."""
    own = ours.issue("controller")
    arguments = ["--tls-key", own.key, "--tls-cert", own.certificate, "--tls-ca", ours.certificate]
    with controller_process(tmp_path_factory.mktemp("tls"), arguments=map(str, arguments)) as process:
        yield process


def client(ours: Authority, pair: Pair | None = None) -> ssl.SSLContext:
    """Return the TLS settings of a switch, which also checks the controller's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(ours.certificate)
    if pair is not None:
        context.load_cert_chain(pair.certificate, pair.key)
    return context


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_switch_with_a_certificate_of_the_authority_is_served(
    controller: Process, ours: Authority, switch: Pair, newest: ssl.TLSVersion
) -> None:
    """Older switches support nothing newer than TLS 1.2."""
    context = client(ours, switch)
    context.maximum_version = newest
    serves(controller, context.wrap_socket)


def refused(controller: Process, wrap: Callable[[socket.socket], socket.socket]) -> None:
    """Check that the peer gets an alert or the end of the connection, and never an OpenFlow message."""
    logged = controller.log.count("TLS:")
    received = b""
    with (
        socket.create_connection(("127.0.0.1", controller.port)) as raw,
        suppress(ssl.SSLError, ConnectionError),
    ):
        raw.settimeout(300)
        sock = wrap(raw)
        sock.sendall(message(MessageType.HELLO))
        received = sock.recv(8)
    assert received[:1] in (b"", b"\x15")  # the type of an alert
    wait_until(lambda: controller.log.count("TLS:") > logged, "the controller logs the refusal")


def test_a_switch_without_a_certificate_of_the_authority_or_without_tls_is_refused(
    controller: Process, ours: Authority, strangers: Authority
) -> None:
    refused(controller, client(ours).wrap_socket)
    assert "PEER_DID_NOT_RETURN_A_CERTIFICATE" in controller.log
    refused(controller, client(ours, strangers.issue("switch")).wrap_socket)
    assert "CERTIFICATE_VERIFY_FAILED" in controller.log
    refused(controller, lambda plain: plain)


def test_an_endless_tls_handshake_is_closed_and_others_are_served(
    controller: Process, ours: Authority, switch: Pair
) -> None:
    with socket.create_connection(("127.0.0.1", controller.port)) as idler:
        idler.sendall(b"\x16\x03\x01")
        serves(controller, client(ours, switch).wrap_socket)
        idler.settimeout(300)
        assert idler.recv(1) == b""


@pytest.mark.parametrize("given", [("key", "cert"), ("ca",)])
def test_half_of_the_options_are_an_error_that_names_all(
    tmp_path: Path, ours: Authority, given: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["--config", os.devnull, "--store", f"sqlite:///{tmp_path}/s.db"]
    for name in given:
        argv += [f"--tls-{name}", str(ours.certificate)]
    assert SERVICE.main(argv) == 2
    output = capsys.readouterr().err
    assert output.startswith("sluice controller: tls_")
    assert "tls_key, tls_cert, tls_ca" in output


def test_server_context__names_the_file_that_cannot_be_used(
    tmp_path: Path, ours: Authority, strangers: Authority
) -> None:
    own, other = ours.issue("controller"), strangers.issue("controller")
    empty = tmp_path / "empty"
    empty.touch()
    for field, key, certificate, authority in (
        ("--tls-key", tmp_path / "none", own.certificate, ours.certificate),
        ("--tls-cert", other.key, own.certificate, ours.certificate),
        ("--tls-ca", own.key, own.certificate, empty),
    ):
        with pytest.raises(FieldError) as caught:
            connection.server_context(key, certificate, authority)
        assert caught.value.field == field
