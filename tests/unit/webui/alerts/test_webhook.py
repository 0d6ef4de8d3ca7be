# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import socket
import time

import pytest

from sluice.webui.alerts.webhook import NotDelivered, Webhook
from tests.kit.receiver import Receiver

MESSAGE = {"id": "m//1.000/firing", "alert": "m", "state": "firing"}


def test_post__json_with_an_id_and_a_token(receiver: Receiver) -> None:
    Webhook(receiver.url, "the-token").post(MESSAGE)
    assert receiver.got == [MESSAGE]
    assert receiver.paths == ["/hooks/secret-path?key=secret-key"]
    (headers,) = receiver.headers
    assert headers["Idempotency-Key"] == "m//1.000/firing"
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == "Bearer the-token"


def test_post__without_a_token_no_header(receiver: Receiver) -> None:
    Webhook(receiver.url).post(MESSAGE)
    assert "Authorization" not in receiver.headers[0]


@pytest.mark.parametrize(
    ("status", "is_final"), [(500, False), (503, False), (429, False), (408, False), (400, True), (404, True)]
)
def test_post__a_refusal(receiver: Receiver, status: int, is_final: bool) -> None:
    receiver.statuses = [status]
    with pytest.raises(NotDelivered, match=f"answers {status}") as error:
        Webhook(receiver.url).post(MESSAGE)
    assert error.value.is_final is is_final


def test_post__a_redirect_is_not_followed(receiver: Receiver) -> None:
    receiver.statuses = [307]
    with pytest.raises(NotDelivered, match="a redirect, which Sluice does not follow") as error:
        Webhook(receiver.url).post(MESSAGE)
    assert error.value.is_final
    assert len(receiver.got) == 1


@pytest.mark.parametrize(("how", "step_s", "whole_s"), [("hang", 0.3, 60.0), ("drip", 60.0, 0.3)])
def test_post__a_receiver_that_hangs_or_drips_is_given_up(
    receiver: Receiver, how: str, step_s: float, whole_s: float
) -> None:
    receiver.statuses = [how]
    began = time.monotonic()
    with pytest.raises(NotDelivered, match="does not answer") as error:
        Webhook(receiver.url, step_s=step_s, whole_s=whole_s).post(MESSAGE)
    assert not error.value.is_final
    assert time.monotonic() - began < 20


def test_post__no_receiver(receiver: Receiver) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, and no one listens
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/secret-path"
        with pytest.raises(NotDelivered, match="does not answer") as error:
            Webhook(url, "the-token").post(MESSAGE)
    assert "secret" not in str(error.value)


def test_secrets_are_not_shown(receiver: Receiver) -> None:
    receiver.statuses = [500, 400, "hang"]
    webhook = Webhook(receiver.url, "the-token", step_s=0.2)
    shown = repr(webhook)
    for _ in range(3):
        with pytest.raises(NotDelivered) as error:
            webhook.post(MESSAGE)
        shown += str(error.value)
    assert "secret" not in shown
    assert "the-token" not in shown
    assert webhook.host == f"127.0.0.1:{receiver.port}"
