# SPDX-License-Identifier: Apache-2.0
"""Agents of other machines: tokens, certificates and their revocation."""

import secrets
import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

from flask import Response, jsonify
from pydantic import Field

from sluice.policy.schema import entries
from sluice.policy.schema.entries import entry, read
from sluice.policy.schema.kinds import Choice, Text, Whole
from sluice.policy.wire.access import ENROLMENT_LIFE_MAX_S, KINDS, Holder, Token
from sluice.runtime.certificates import pem
from sluice.store import access
from sluice.store.desired import add_act
from sluice.store.observed import add_event
from sluice.webui.access import check_agent, holder
from sluice.webui.api import AgentPath, Api, ApiError, Model, model_of, read_json
from sluice.webui.auth import require_token
from sluice.webui.authority import Authority
from sluice.webui.services import services

_PEM = Text(longest=10_000)


@dataclass(frozen=True)
class NewToken:
    """What a new token allows."""

    name: str = entry(entries.AGENT, "Name of the agent.")
    kind: str = entry(Choice(KINDS), "Kind of the agent.", default="host")
    valid_s: int = entry(
        Whole(1, ENROLMENT_LIFE_MAX_S, "s"), "The token expires after this time.", default=3600
    )


@dataclass(frozen=True)
class EnrolmentRequest:
    """A token and a key to certify."""

    secret: str = entry(Text(longest=200), "Secret of the token.")
    request: str = entry(_PEM, "Signing request in PEM.")


@dataclass(frozen=True)
class RenewalRequest:
    """A key to certify anew."""

    request: str = entry(_PEM, "Signing request in PEM.")


class TokenAnswer(Model):
    token: str = Field(
        description="write it into a file and give its path to the agent with --enrol; it works once"
    )
    expires_at: int = Field(description="epoch seconds")


class AgentCertificate(model_of(access.Certificate)):  # type: ignore[misc]
    state: Literal["valid", "ended", "revoked"]


class AgentCertificates(Model):
    certificates: list[AgentCertificate]


class RevokedAnswer(Model):
    revoked: int = Field(description="number of certificates and unused tokens that ended")


class AuthorityAnswer(Model):
    authority: str = Field(description="certificate in PEM")


class CertificateAnswer(Model):
    certificate: str = Field(description="the agent's certificate in PEM")
    authorities: str = Field(description="certificate in PEM of the authority that the agent must trust")


api = Api("enrolment", __name__, "Certificates of the agents on other machines")

MAX_BODY_BYTES = 20_000


@api.post("/enrolments", answers=TokenAnswer, errors=[409], token=True, body=NewToken)
def make_token() -> Response:
    """Make a token with which one agent can enrol once. Earlier unused tokens of this name end."""
    caller = require_token()
    asked = read(NewToken, read_json(MAX_BODY_BYTES))
    authority = _authority()
    expires_at = int(time.time() + asked.valid_s)
    secret = secrets.token_urlsafe(24)
    access.put_enrolment(services().engine, secret, asked.name, asked.kind, expires_at)
    made = {"agent": asked.name, "agent_kind": asked.kind}
    add_act(services().engine, "enrolment-token-made", caller, **made)
    token = Token(asked.name, asked.kind, secret, expires_at, authority.fingerprint())
    return jsonify(token=token.text(), expires_at=expires_at)


@api.get("/certificates", answers=AgentCertificates)
def list_certificates() -> Response:
    """The newest certificate of each agent."""
    now = time.time()
    newest = access.newest_certificates(services().engine)
    return jsonify(certificates=[{**asdict(each), "state": _state(each, now)} for each in newest])


@api.post("/agents/<name>/revocation", answers=RevokedAnswer, errors=[404], token=True)
def revoke_agent(path: AgentPath) -> Response:
    """Refuse this agent from its next request on. Its unused token ends too."""
    caller = require_token()
    count = access.revoke(services().engine, path.name)
    if not count:
        raise ApiError(404, "not-found", f"the agent {path.name} has no certificate or token in force")
    add_act(services().engine, "certificate-revoked", caller, agent=path.name)
    return jsonify(revoked=count)


@api.get("/authority", answers=AuthorityAnswer, errors=[403])
def read_authority() -> Response:
    """The authority's certificate in PEM. An agent compares it with its token's fingerprint."""
    return jsonify(authority=pem(_authority().signer.certificate).decode())


@api.post("/enrolment", answers=CertificateAnswer, errors=[403], body=EnrolmentRequest)
def enrol() -> Response:
    """Exchange a token for a certificate."""
    asked = read(EnrolmentRequest, read_json(MAX_BODY_BYTES))
    engine = services().engine
    token = access.find_enrolment(engine, asked.secret)
    if token is None:
        raise _no_token("is not known here; make one with `sluice enrol`")
    if token.used_at is not None:
        raise _no_token("was used already; make another one with `sluice enrol`", token.name)
    if token.expires_at <= time.time():
        raise _no_token("has expired; make another one with `sluice enrol`", token.name)
    certificate, row = _authority().certify(asked.request.encode(), Holder(token.name, token.kind))
    if not access.use_enrolment(engine, asked.secret, row):
        raise _no_token("was used already; make another one with `sluice enrol`", token.name)
    add_event(engine, "agent-enrolled", agent=row.name, agent_kind=row.kind, ends_at=row.ends_at)
    return _certificate(certificate)


@api.post("/agents/<name>/certificate", answers=CertificateAnswer, errors=[401, 403], body=RenewalRequest)
def renew(path: AgentPath) -> Response:
    """Give an agent a new certificate for its present one."""
    asked = read(RenewalRequest, read_json(MAX_BODY_BYTES))
    agent = holder()
    if agent is None:
        raise ApiError(403, "agents-only", "agents renew at the address of --agents, over TLS")
    check_agent(path.name, agent.kind)
    certificate, row = _authority().certify(asked.request.encode(), agent)
    access.put_certificate(services().engine, row)
    return _certificate(certificate)


def _certificate(certificate: Any) -> Response:
    authority = _authority().signer.certificate
    return jsonify(certificate=pem(certificate).decode(), authorities=pem(authority).decode())


def _authority() -> Authority:
    authority = services().authority
    if authority is None:
        raise ApiError(
            409, "no-agents-address", "start the web process with --agents HOST:PORT to enrol agents"
        )
    return authority


def _no_token(problem: str, name: str = "?") -> ApiError:
    services().refusals.note(name, f"the enrolment token {problem}")
    return ApiError(403, "enrolment-refused", f"the enrolment token {problem}")


def _state(certificate: access.Certificate, now: float) -> str:
    if certificate.revoked_at is not None:
        return "revoked"
    return "valid" if certificate.ends_at > now else "ended"
