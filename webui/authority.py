# SPDX-License-Identifier: Apache-2.0
"""The certificate authority of the agents, in a folder of the web process, and TLS of their address.

    authority.pem   key and certificate of the authority (mode 0600)
    web.pem         key and certificate of the web process (mode 0600)

The web process makes authority.pem if it is missing; an operator may put another one there. No agent trusts two
authorities, so with a new one every agent enrols again.
"""

import datetime
import fcntl
import os
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID as Usage
from cryptography.x509.oid import NameOID

from sluice.policy.errors import EnvironmentLacking, FieldError
from sluice.policy.wire.access import AGENT_LIFE_S, SERVER_NAME, Holder
from sluice.runtime import certificates
from sluice.runtime.token_file import write_private
from sluice.store.access import Certificate

WEB_LIFE_S = 90 * 86_400.0
AUTHORITY_LIFE_S = 3650 * 86_400.0
CLOCK_SKEW_S = 300.0
"""A certificate is valid this long before it was made, for hosts whose clock is behind; at most a tenth of its life."""


@dataclass(frozen=True)
class Signer:
    """What the authority signs with."""

    key: certificates.Key
    certificate: x509.Certificate


class Authority:
    """The authority in `folder`. Several processes may use the same folder."""

    def __init__(self, folder: Path, agent_life_s: float = AGENT_LIFE_S) -> None:
        """Make the authority if the folder has none. Raises EnvironmentLacking if the folder cannot be used."""
        self.folder = folder
        self._agent_life_s = agent_life_s
        self._context: ssl.SSLContext
        self._context_until_s = 0.0
        """Monotonic seconds."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._alone():
                if not self._main.exists():
                    signer = _new_authority()
                    write_private(
                        self._main, certificates.key_pem(signer.key) + certificates.pem(signer.certificate)
                    )
        except OSError as error:
            raise EnvironmentLacking(
                f"{folder}: cannot keep the authority of the agents here ({error.strerror}); "
                "name another folder with --authority"
            ) from None

    @property
    def signer(self) -> Signer:
        """Raises EnvironmentLacking if the file is damaged."""
        content = self._main.read_bytes()
        try:
            return Signer(certificates.load_key(content), x509.load_pem_x509_certificate(content))
        except ValueError as error:
            raise EnvironmentLacking(
                f"{self._main}: is not a key and its certificate ({error}); restore it from a backup, or "
                "delete the folder and enrol all agents again"
            ) from None

    def fingerprint(self) -> str:
        return certificates.fingerprint(self.signer.certificate)

    def certify(self, request_pem: bytes, holder: Holder) -> tuple[x509.Certificate, Certificate]:
        """Return a certificate for the key of a signing request, and its row. Raises FieldError.

        The holder is what the caller has proved. A request for another holder is refused.
        """
        request = _checked_request(request_pem, holder)
        certificate = _sign(
            self.signer,
            certificates.subject(holder),
            request.public_key(),  # type: ignore[arg-type]
            self._agent_life_s,
            usage=Usage.CLIENT_AUTH,
        )
        issued, ends = _times(certificate)
        row = Certificate(serial_of(certificate), holder.name, holder.kind, issued, ends)
        return certificate, row

    def web_chain(self) -> Path:
        """Return the file with key and certificate of the web process. Make it if it is old or of another authority."""
        path = self.folder / "web.pem"
        with self._alone():
            if not self._is_fresh(path):
                key = certificates.new_key()
                name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SERVER_NAME)])
                certificate = _sign(self.signer, name, key.public_key(), WEB_LIFE_S, usage=Usage.SERVER_AUTH)
                write_private(path, certificates.key_pem(key) + certificates.pem(certificate))
        return path

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for connections of agents. One thread of a process uses it."""
        if time.monotonic() > self._context_until_s:
            self._context = _context(self)
            self._context_until_s = time.monotonic() + CONTEXT_LIFE_S
        return self._context

    def _is_fresh(self, path: Path) -> bool:
        if not path.exists():
            return False
        certificate = x509.load_pem_x509_certificate(path.read_bytes())
        try:
            certificate.verify_directly_issued_by(self.signer.certificate)
        except (ValueError, InvalidSignature):
            return False
        issued, ends = _times(certificate)
        return _now().timestamp() < (issued + ends) / 2

    @property
    def _main(self) -> Path:
        return self.folder / "authority.pem"

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other processes of this folder out."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def serial_of(certificate: x509.Certificate) -> str:
    return f"{certificate.serial_number:x}"


def _times(certificate: x509.Certificate) -> tuple[float, float]:
    """Return begin and end in epoch seconds."""
    return certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _new_authority() -> Signer:
    key = certificates.new_key()
    title = f"Sluice authority {_now():%Y-%m-%d} {os.urandom(4).hex()}"
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, title)])
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = _builder(name, name, key.public_key(), AUTHORITY_LIFE_S, key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return Signer(key, builder.add_extension(usage, critical=True).sign(key, hashes.SHA256()))


def _sign(
    signer: Signer,
    name: x509.Name,
    key: ec.EllipticCurvePublicKey,
    life_s: float,
    *,
    usage: x509.ObjectIdentifier,
) -> x509.Certificate:
    """Return a certificate of an agent or of the web process."""
    builder = _builder(signer.certificate.subject, name, key, life_s, signer.key.public_key())
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
    if usage == Usage.SERVER_AUTH:
        names = x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer.key, hashes.SHA256())


def _builder(
    issuer: x509.Name,
    name: x509.Name,
    key: ec.EllipticCurvePublicKey,
    life_s: float,
    issuer_key: ec.EllipticCurvePublicKey,
) -> x509.CertificateBuilder:
    now = _now()
    skew_s = min(CLOCK_SKEW_S, life_s / 10)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(seconds=skew_s))
        .not_valid_after(now + datetime.timedelta(seconds=life_s))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _checked_request(request_pem: bytes, holder: Holder) -> x509.CertificateSigningRequest:
    """Return the request if its sender has the key and asks for this holder. Raises FieldError."""
    try:
        request = x509.load_pem_x509_csr(request_pem)
        valid = request.is_signature_valid and isinstance(request.public_key(), ec.EllipticCurvePublicKey)
    except (ValueError, InvalidSignature):
        valid = False
    if not valid:
        raise FieldError("request", "must be a signing request in PEM with an elliptic curve key")
    asked = certificates.holder_of(request)
    if asked != holder:
        raise FieldError(
            "request",
            f"asks for the agent {asked.name!r} of kind {asked.kind!r}, but this caller is "
            f"{holder.name!r} of kind {holder.kind!r}",
        )
    return request


# ── TLS of the agents' address ───────────────────────────────────────────────────────────────────────────────────────


HANDSHAKE_S = 5.0
CONTEXT_LIFE_S = 3600.0
"""A context is made anew after this time, so the web process renews its own certificate in time."""


def _context(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(authority.web_chain())
    context.load_verify_locations(cadata=certificates.pem(authority.signer.certificate).decode())
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    # A caller without a certificate may only enrol (webui/access.py). One with a certificate of
    # another authority ends in the handshake.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0  # every connection verifies the certificate
    return context


def reason(error: ssl.SSLError) -> str:
    """Return why a handshake failed, for an operator."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return f"the TLS handshake failed: {error.reason or error}"
