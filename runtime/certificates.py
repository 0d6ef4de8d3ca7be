# SPDX-License-Identifier: Apache-2.0
"""What the web process and the agents must agree on about certificates.

A certificate's subject holds the agent's name (CN) and its kind (OU). The web process has the name SERVER_NAME in its
certificate, whatever its address is: agents trust one authority, and this authority certifies one server.
"""

import ssl

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sluice.policy.wire.access import Holder

Key = ec.EllipticCurvePrivateKey


def new_key() -> Key:
    return ec.generate_private_key(ec.SECP256R1())


def key_pem(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def load_key(pem: bytes) -> Key:
    """Raises ValueError unless the PEM holds a key of this program's kind."""
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the key is no elliptic curve key")
    return key


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def fingerprint(certificate: x509.Certificate) -> str:
    """Return the SHA-256 of the certificate in hexadecimal digits."""
    return certificate.fingerprint(hashes.SHA256()).hex()


def subject(holder: Holder) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, holder.name),
            x509.NameAttribute(NameOID.ORGANIZATIONAL_UNIT_NAME, holder.kind),
        ]
    )


def holder_of(certificate: x509.Certificate | x509.CertificateSigningRequest) -> Holder:
    """Return whom the certificate names; empty texts for what it lacks."""
    return Holder(
        _first(certificate.subject, NameOID.COMMON_NAME),
        _first(certificate.subject, NameOID.ORGANIZATIONAL_UNIT_NAME),
    )


def _first(name: x509.Name, oid: x509.ObjectIdentifier) -> str:
    values = name.get_attributes_for_oid(oid)
    return str(values[0].value) if values else ""


def signing_request(key: Key, holder: Holder) -> bytes:
    """Return a request, in PEM, that the authority sign a certificate for this key."""
    request = x509.CertificateSigningRequestBuilder().subject_name(subject(holder))
    return request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def client_context() -> ssl.SSLContext:
    """Return a context for agents that trusts no one yet. It can trust an authority that another one has certified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context
