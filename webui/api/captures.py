# SPDX-License-Identifier: Apache-2.0
"""Captures of a port's packets. The port agent makes them; the answer to its heartbeat asks for one."""

from __future__ import annotations

import base64
import binascii
import time

from flask import Response, jsonify, make_response

from sluice.policy.captures import MAX_RESULT_BYTES, CaptureResult, NewCapture
from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import read, schema
from sluice.policy.wire.agents import PortHeartbeat
from sluice.store.ages import age_s
from sluice.store.audit import Author
from sluice.store.captures import Capture, CaptureBusy, ask, find_capture, finish, pcap_of
from sluice.store.observed import add_event
from sluice.webui.access import check_agent
from sluice.webui.auth import require_token
from sluice.webui.bodies import read_json, request_body
from sluice.webui.capture_documents import capture_document, capturing_agent
from sluice.webui.capture_models import CaptureDelivered, CaptureModel, CapturePath, DeliveryPath
from sluice.webui.errors import ApiError, Error, blueprint
from sluice.webui.services import services

api = blueprint("captures", __name__, "Packets of a port as a pcap file")

MAX_BODY_BYTES = 4000
PCAP = "application/vnd.tcpdump.pcap"
_BEARER = [{"bearer": list[str]()}]


@api.post(
    "/captures",
    responses={
        202: CaptureModel,
        400: Error,
        401: Error,
        403: Error,
        404: Error,
        409: Error,
        413: Error,
        415: Error,
    },
    security=_BEARER,
    openapi_extensions=request_body(schema(NewCapture)),
)
def start_capture() -> Response:
    """Capture the packets of a port: the first 128 bytes of each, for some seconds and up to a size.

    Needs the role change. The port's agent begins within about a second. 409: the network is simulated, no port agent
    reports the port, or the agent makes another capture. The audit log names each capture.
    """
    caller = require_token(services().token)
    wish = read(NewCapture, read_json(MAX_BODY_BYTES))
    engine = services().engine
    agent = capturing_agent(engine, wish.port)
    try:
        capture = ask(engine, wish, agent, Author(caller.name, caller.address))
    except CaptureBusy as busy:
        raise ApiError(409, "busy", f"{busy}; try again when that has ended", "port") from None
    add_event(engine, "capture-requested", port=capture.port, by=caller.name, duration_s=capture.seconds)
    return make_response(jsonify(capture_document(capture, capture.asked_s)), 202)


@api.get(
    "/captures/<capture>",
    responses={200: CaptureModel, 401: Error, 403: Error, 404: Error},
    security=_BEARER,
)
def read_capture(path: CapturePath) -> Response:
    """What became of a capture. Needs the role change."""
    require_token(services().token)
    return jsonify(capture_document(_found(path.capture), age_s(services().engine)))


@api.get(
    "/captures/<capture>/pcap",
    responses={
        200: {"description": "the pcap file", "content": {PCAP: {"schema": {"type": "string"}}}},
        401: Error,
        403: Error,
        404: Error,
        409: Error,
        410: Error,
    },
    security=_BEARER,
)
def download_capture(path: CapturePath) -> Response:
    """The file of a capture that is done. Needs the role change. The file is there for ten minutes."""
    require_token(services().token)
    engine = services().engine
    capture = _found(path.capture)
    document = capture_document(capture, age_s(engine))
    if document["state"] != "done":
        raise ApiError(409, "no-file", document["problem"] or "the capture still runs")
    pcap = pcap_of(engine, capture.id)
    if pcap is None:
        raise ApiError(410, "gone", "the file was deleted after ten minutes; make another capture")
    when = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(capture.at))
    name = f"{capture.port.replace(':', '-')}-{when}.pcap"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Response(pcap, mimetype=PCAP, headers=headers)


@api.post(
    "/agents/<name>/captures/<capture>",
    responses={
        200: CaptureDelivered,
        400: Error,
        401: Error,
        403: Error,
        404: Error,
        413: Error,
        415: Error,
    },
    openapi_extensions=request_body(schema(CaptureResult)),
)
def deliver_capture(path: DeliveryPath) -> Response:
    """Deliver a capture, or why there is none. Only its agent may. A second delivery changes nothing."""
    check_agent(path.name, PortHeartbeat.KIND)
    result = read(CaptureResult, read_json(MAX_RESULT_BYTES))
    capture = _found(path.capture)
    if capture.agent != path.name:
        raise ApiError(403, "other-agent", f"this capture is {capture.agent}'s, not {path.name}'s")
    row = {"problem": result.problem, "packets": result.packets, "lost": result.lost, "full": result.full}
    engine = services().engine
    new = finish(engine, capture, row, _decoded(result.pcap))
    if new:
        ended = {"problem": result.problem} if result.problem else {"packets": result.packets}
        add_event(engine, "capture-failed" if result.problem else "capture-done", port=capture.port, **ended)
    return jsonify(accepted=new)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise FieldError("pcap", "must be base64") from None


def _found(capture_id: str) -> Capture:
    found = find_capture(services().engine, capture_id)
    if found is None:
        raise ApiError(404, "not-found", f"there is no capture {capture_id}")
    return found
