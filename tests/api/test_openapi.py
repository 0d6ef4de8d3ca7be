# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document is correct: schemathesis sends what it allows and what it forbids, and
checks every answer."""

import itertools
import os
import time
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from flask import Flask
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine

from sluice.policy.schema.desired import Policy
from sluice.store import desired
from sluice.store.desired import mark_applied, put_policy
from sluice.store.engine import open_store
from sluice.webui import flows
from sluice.webui.app import create_app, openapi_document
from tests.kit.known import known
from tests.web.synthetic import Network, fill

TOKEN = "the-token"
# To cover every key of these documents takes long, so only `make fuzz` does it. `runs/check` and `network` have the
# documents of two of them.
LONG = ("policy", "runs", "network/check")
FROM_AGENTS = ("flows", "agents/{name}")
RANDOM = os.environ.get("SLUICE_EXAMPLES") == "random"
EXAMPLES = 40 if RANDOM else 2


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
            # To try the constants of our source in every key costs a tenth of the time.
            "analysis": {"constants": {"enabled": RANDOM}},
            "auth": {"openapi": {"bearer": {"bearer": TOKEN}}},
            "checks": {"negative_data_rejection": {"expected-statuses": ["4xx"]}},
            "operations": [
                {
                    "include-name": f"{method} /api/v1/{path}",
                    "checks": {"positive_data_acceptance": {"expected-statuses": ["2xx", status]}},
                    "phases": {
                        "coverage": {"enabled": path != "policy/preview" and (path not in LONG or RANDOM)}
                    },
                }
                for (method, path), status in refusals.items()
            ]
            + [
                {"include-name": f"POST /api/v1/{path}", "phases": {"coverage": {"enabled": RANDOM}}}
                for path in FROM_AGENTS
            ],
        }
    )


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flask]:
    """The application, with some of everything, and a controller that applies every policy at once: no PUT waits."""
    engine = open_store(f"sqlite:///{tmp_path_factory.mktemp('openapi')}/store.db")
    app = create_app(engine, TOKEN)
    network = Network(engine)
    fill(network, time.time(), 8)
    network.heartbeats(1)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(desired, "put_policy", put_applied)
        patched.setattr(flows, "MAX_BINS", 50)  # thousands of bins cost seconds, and have the same schema
        yield app
    engine.dispose()


def put_applied(engine: Engine, policy: Policy, *more: Any) -> int:
    """Store a policy, and apply it as a controller does."""
    version = put_policy(engine, policy, *more)
    mark_applied(engine, version)
    return version


@pytest.fixture(scope="module")
def api_schema(app: Flask) -> schemathesis.BaseSchema:
    return schemathesis.openapi.from_wsgi("/openapi/openapi.json", app, config=configuration())


# From a fixture, because the examples of all operations take ten seconds, and every worker collects the tests.
# The stream has no end; test_services.py covers it.
schema = schemathesis.pytest.from_fixture("api_schema").exclude(path="/api/v1/events")


@schema.parametrize()
@settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck))
def test_api(case: schemathesis.Case[Any]) -> None:
    case.call_and_validate()


def test_document__describes_every_route(app: Flask) -> None:
    described = {
        (path, method.upper()) for path, item in openapi_document()["paths"].items() for method in item
    }
    rules = [rule for rule in app.url_map.iter_rules() if rule.rule.startswith("/api/")]
    routes = {
        (rule.rule.replace("<", "{").replace(">", "}"), method)
        for rule, method in itertools.chain.from_iterable(
            [(rule, method) for method in known(rule.methods) - {"HEAD", "OPTIONS"}] for rule in rules
        )
    }
    assert described == routes
