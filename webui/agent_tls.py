# SPDX-License-Identifier: Apache-2.0
"""TLS of the agents' address."""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from typing import Any

from cryptography import x509

from sluice.runtime.certificates import pem
from sluice.webui.authority import Authority
from sluice.webui.peers import channel_of

HANDSHAKE_S = 5.0
CONTEXT_LIFE_S = 3600.0
"""A context is made anew after this time, so the web process renews its own certificate in time."""


class ServerTls:
    """The context for connections of agents. It follows changes of the authority. One thread uses it."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._made_of: tuple[int, ...] | None = None
        self._until = 0.0
        self._context: ssl.SSLContext

    def context(self) -> ssl.SSLContext:
        state = self._authority.state()
        if state != self._made_of or time.monotonic() > self._until:
            self._context = _context(self._authority)
            self._made_of, self._until = state, time.monotonic() + CONTEXT_LIFE_S
        return self._context


def _context(authority: Authority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(authority.web_chain())
    context.load_verify_locations(cadata=pem(*authority.trusted()).decode())
    # A caller without a certificate may only enrol (webui/identity.py). One with a certificate of
    # another authority ends in the handshake.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0  # every connection verifies the certificate
    return context


def reason(error: ssl.SSLError) -> str:
    """Return why a handshake failed, for an operator."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    return f"the TLS handshake failed: {error.reason or error}"


def peer_certificate(environ: Mapping[str, Any]) -> x509.Certificate | None:
    """Return the verified certificate of the caller, None without one."""
    found = channel_of(environ).certificate
    return x509.load_der_x509_certificate(found) if found else None


def is_agents_address(environ: Mapping[str, Any]) -> bool:
    """Return whether the request came in at the agents' address."""
    return channel_of(environ).is_agents
