# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document is correct: schemathesis sends what it allows and what it forbids, and
checks every answer."""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings

from sluice.store.desired import current_version, mark_applied
from sluice.store.engine import open_store
from sluice.webui.app import create_app, openapi_document
from tests.kit.known import known
from tests.web.synthetic import Network, fill

TOKEN = "the-token"
LARGE = ("policy", "policy/preview", "network", "network/check")
RANDOM = os.environ.get("SLUICE_EXAMPLES") == "random"
EXAMPLES = 40 if RANDOM else 10


def configuration() -> schemathesis.Config:
    """Return all checks, with the rules that JSON Schema cannot express: thresholds increase, one
    fewer than the queues; names in a description of the network are unique, and links name each other.

    So only there a document that the schema allows may be refused with a 422. This application has no address for
    agents and no folder of runs, and no agent is enrolled. A made-up name is of no port.
    """
    refusals = {
        ("PUT", "policy"): "422",
        ("POST", "policy/preview"): "422",
        ("PUT", "network"): "422",
        ("POST", "network/check"): "422",
        ("POST", "runs"): "404",
        ("POST", "runs/check"): "404",
        ("POST", "runs/cancellation"): "404",
        ("GET", "runs/report"): "404",
        ("POST", "enrolments"): "409",
        ("POST", "enrolment"): "403",
        ("POST", "agents/{name}/certificate"): "403",
        ("POST", "agents/{name}/revocation"): "404",
        ("PUT", "ports/{port}/override"): "404",
        ("DELETE", "ports/{port}/override"): "404",
    }
    return schemathesis.Config.from_dict(
        {
            "auth": {"openapi": {"bearer": {"bearer": TOKEN}}},
            "checks": {"negative_data_rejection": {"expected-statuses": ["4xx"]}},
            "operations": [
                {
                    "include-name": f"{method} /api/v1/{path}",
                    "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", status]}},
                    # To cover every key of a policy takes minutes, so only `make fuzz` does it.
                    "phases": {
                        "coverage": {"enabled": path != "policy/preview" and (path != "policy" or RANDOM)}
                    },
                }
                for (method, path), status in refusals.items()
            ],
        }
    )


# The test is collected from the document, so the application exists before any fixture.
FOLDER = tempfile.TemporaryDirectory(prefix="sluice-openapi-")
ENGINE = open_store(f"sqlite:///{FOLDER.name}/store.db")
APP = create_app(ENGINE, TOKEN)
# The stream has no end; test_services.py covers it.
schema = schemathesis.openapi.from_wsgi("/openapi/openapi.json", APP, config=configuration()).exclude(
    path="/api/v1/events"
)


@pytest.fixture(scope="module", autouse=True)
def some_of_everything() -> Iterator[None]:
    network = Network(ENGINE)
    fill(network, time.time(), 8)
    network.heartbeats(1)
    stop = threading.Event()
    controller = threading.Thread(target=apply_at_once, args=(stop,))
    controller.start()
    yield
    stop.set()
    controller.join()


def apply_at_once(stop: threading.Event) -> None:
    """Play a controller that applies every policy at once, so that no PUT waits."""
    while not stop.wait(0.01):
        mark_applied(ENGINE, current_version(ENGINE))


@schema.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_api(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate()


def test_document__describes_every_route() -> None:
    described = {
        (path, method.upper()) for path, item in openapi_document()["paths"].items() for method in item
    }
    rules = [rule for rule in APP.url_map.iter_rules() if rule.rule.startswith("/api/")]
    routes = {
        (rule.rule.replace("<", "{").replace(">", "}"), method)
        for rule, method in itertools.chain.from_iterable(
            [(rule, method) for method in known(rule.methods) - {"HEAD", "OPTIONS"}] for rule in rules
        )
    }
    assert described == routes
