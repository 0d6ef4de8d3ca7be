# SPDX-License-Identifier: Apache-2.0
"""An agent's key and certificate: enrolment by a token, renewal, and TLS with them.

    key.pem           the agent's key; it never leaves the host
    certificate.pem   the certificate that the web process's authority gave
    token             the hash of the token that gave it
    authorities.pem   the certificate of the authority that the agent trusts

All of them are in one folder with mode 0700. Enrolment is two connections. The first reads the authority's
certificate, without trust, and compares it with the token's fingerprint. The second trusts only that certificate and
carries the token's secret and the signing request.
"""

import hashlib
import json
import logging
import ssl
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from cryptography import x509

from sluice.policy.errors import EnvironmentLacking, FieldError, SluiceError
from sluice.policy.wire.access import Holder, Token
from sluice.runtime import certificates
from sluice.runtime.certificates import client_context, fingerprint, signing_request
from sluice.runtime.http_client import HttpClient, ServerAway, is_tls
from sluice.runtime.token_file import write_private

log = logging.getLogger(__name__)

RENEW_AT = 0.5
"""The part of its life after which an agent renews its certificate. Two thirds would be late for an outage."""
RETRY_S, TIMEOUT_S = 5.0, 10.0


class Identity:
    """The identity of one agent in `folder`, which may be empty."""

    def __init__(self, folder: Path, holder: Holder) -> None:
        self._folder = folder
        self._key, self._certificate = folder / "key.pem", folder / "certificate.pem"
        self._authorities = folder / "authorities.pem"
        self.holder = holder
        self._next_try = 0.0

    @property
    def exists(self) -> bool:
        return self._certificate.exists()

    def check(self) -> None:
        """Raise SluiceError unless the folder has a certificate for this holder."""
        if not self.exists:
            kind_option = "" if self.holder.kind == "host" else f" --kind {self.holder.kind}"
            raise EnvironmentLacking(
                f"{self._folder}: the agent {self.holder.name} is not enrolled; run `sluice enrol "
                f"{self.holder.name}{kind_option}` beside the web process, and start the agent once "
                "with --enrol /PATH, a file with a token"
            )

    def context(self) -> ssl.SSLContext:
        """Return a context that shows the certificate and trusts the authority. Raises EnvironmentLacking."""
        try:
            context = self._trusting()
            context.load_cert_chain(self._certificate, self._key)
        except (OSError, ssl.SSLError) as error:
            raise EnvironmentLacking(
                f"{self._folder}: cannot read key, certificate and authority ({error}); enrol the agent again"
            ) from None
        return context

    def enrol(self, web: str, text: str) -> None:
        """Make a key and exchange the token for a certificate. Raises SluiceError, also if the web process is away."""
        token = Token.parse(text)
        used_token = self._folder / "token"
        if self.exists and used_token.exists() and used_token.read_bytes() == _mark(token):
            return  # the agent was started again with the token that gave it this certificate
        self._check_token(token)
        key = certificates.new_key()
        try:
            authority = _authority(web, token)
            write_private(self._authorities, authority)
            body = {"secret": token.secret, "request": signing_request(key, self.holder).decode()}
            with closing(HttpClient(web, TIMEOUT_S, tls=self._trusting)) as client:
                answer = client.post("/api/v1/enrolment", json.dumps(body).encode())
        except ServerAway as away:
            raise EnvironmentLacking(f"--enrol: {web} does not enrol this agent: {away}") from None
        if not answer.ok:
            raise EnvironmentLacking(f"--enrol: {web} refuses the token: {answer.problem}")
        write_private(self._key, certificates.key_pem(key))
        self._store(answer.json())
        write_private(used_token, _mark(token))

    def _check_token(self, token: Token) -> None:
        if Holder(token.name, token.kind) != self.holder:
            raise FieldError(
                "--enrol",
                f"the token is for the agent {token.name!r} of kind {token.kind!r}, but this agent is "
                f"{self.holder.name!r} of kind {self.holder.kind!r}",
            )
        if token.expires_at <= time.time():
            raise FieldError("--enrol", "the token has expired; make another one with `sluice enrol`")

    def renewal_due(self) -> bool:
        """Return whether to renew now, in good time before the certificate ends."""
        if time.monotonic() < self._next_try:
            return False
        certificate = x509.load_pem_x509_certificate(self._certificate.read_bytes())
        begin, end = (
            certificate.not_valid_before_utc.timestamp(),
            certificate.not_valid_after_utc.timestamp(),
        )
        return time.time() >= begin + RENEW_AT * (end - begin)

    def renew(self, web: HttpClient) -> None:
        """Ask for a new certificate of the same key, and use it from the next connection on. Raises ServerAway."""
        self._next_try = time.monotonic() + RETRY_S
        request = signing_request(certificates.load_key(self._key.read_bytes()), self.holder)
        body = json.dumps({"request": request.decode()}).encode()
        answer = web.post(f"/api/v1/agents/{self.holder.name}/certificate", body)
        if not answer.ok:
            raise ServerAway(f"it does not renew the certificate: {answer.problem}")
        try:
            self._store(answer.json())
        except OSError as error:
            log.warning("%s: the disk does not take the new certificate: %s", self._folder, error.strerror)
        web.close()

    def _trusting(self) -> ssl.SSLContext:
        context = client_context()
        context.load_verify_locations(self._authorities)
        return context

    def _store(self, document: Any) -> None:
        try:
            certificate, authorities = str(document["certificate"]), str(document["authorities"])
        except (KeyError, TypeError):
            raise ServerAway(
                "its answer has no certificate: run web process and agent of one version"
            ) from None
        write_private(self._authorities, authorities.encode())
        write_private(self._certificate, certificate.encode())


def identity_for(web: str, folder: Path, holder: Holder, token: str | None) -> Identity | None:
    """Return the identity with which an agent talks to `web`; None for an address without TLS.

    With a `token`, the agent enrols first, unless this token gave it its certificate. Raises SluiceError.
    """
    if not is_tls(web):
        if token:
            raise FieldError("--enrol", f"needs an address with TLS: --web https://HOST:PORT, not {web!r}")
        return None
    identity = Identity(folder, holder)
    if token:
        identity.enrol(web, read_token(token))
    identity.check()
    return identity


def read_token(given: str) -> str:
    """Return the token, which is given itself or as the name of a file. Raises FieldError."""
    if not given.startswith(("/", "./", "@")):
        return given
    path = Path(given.removeprefix("@"))
    try:
        return path.read_text()
    except OSError as error:
        raise FieldError("--enrol", f"cannot read the file {path} with the token: {error.strerror}") from None


def _authority(web: str, token: Token) -> bytes:
    """Return the authority's certificate in PEM. Raises ServerAway, and SluiceError for another fingerprint."""
    with closing(HttpClient(web, TIMEOUT_S, tls=_unverified)) as client:
        answer = client.get("/api/v1/authority")
    try:
        authority = str(answer.json()["authority"]).encode()
        certificate = x509.load_pem_x509_certificate(authority)
    except (KeyError, TypeError, ValueError):
        raise ServerAway("its answer is no certificate; is this the address of --agents?") from None
    if fingerprint(certificate) != token.authority:
        raise SluiceError(
            f"--enrol: {web} has another authority (SHA-256 {fingerprint(certificate)[:16]}…) than the token "
            f"({token.authority[:16]}…), so this may not be your web process; nothing was sent to it"
        )
    return authority


def _unverified() -> ssl.SSLContext:
    """Return a context for the one request whose answer is checked by its fingerprint."""
    context = client_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _mark(token: Token) -> bytes:
    return hashlib.sha256(token.text().encode()).hexdigest().encode()
