# SPDX-License-Identifier: Apache-2.0
"""docs/reference/api.md: the REST API, from the OpenAPI document of the web process."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from sluice.webui.app import openapi_document
from tools.reference.markdown import code, fence, joined, page, sentence, table

Document = Mapping[str, Any]

_EXAMPLE_RECORD = {
    "id": "example/1",
    "src": "h2",
    "dst": "h1",
    "bytes": 20_000,
    "size_class": "small",
    "started_at": 1_769_860_800.0,
    "fct_us": 2100.0,
    "ideal_us": 1900.0,
    "deadline_us": None,
    "met": None,
    "retransmissions": 0,
    "congestion_control": "cubic",
    "scheme": "tcp",
    "status": "finished",
}

_EXAMPLE_HEARTBEAT = {
    "kind": "port",
    "pid": 4711,
    "policy_version": 1,
    "behaviour": {},
    "shares_stand": True,
    "attached": {"s1-eth1": 1},
    "at": 1234.5,
    "ports": {},
    "late_ns": {},
}

_QUERIES: Mapping[tuple[str, str], str] = {
    ("get", "/api/v1/policy"): "limit=5",
    ("get", "/api/v1/thresholds"): "port=s1:1&since=0",
    ("get", "/api/v1/ports"): "port=s1:1",
    ("get", "/api/v1/flows"): "size_class=small&limit=10",
    ("get", "/api/v1/fct"): "window_s=60",
    ("get", "/api/v1/deadlines"): "window_s=300&bin_s=10",
    ("get", "/api/v1/events"): "count=1",
    ("get", "/api/v1/scoreboard"): "against=1",
}

_BODIES: Mapping[tuple[str, str], Any] = {
    ("put", "/api/v1/policy"): {"scheme": "pias"},
    ("post", "/api/v1/policy/preview"): {"scheme": "pias"},
    ("post", "/api/v1/flows"): [_EXAMPLE_RECORD],
    ("post", "/api/v1/agents/{name}"): _EXAMPLE_HEARTBEAT,
}

_BODY_HELP: Mapping[tuple[str, str], str] = {
    ("put", "/api/v1/policy"): "The body is a policy: [its fields](policy.md). What it leaves out is"
    " [fair in the network](../how-to/change-the-policy.md#what-a-document-leaves-out).",
    ("post", "/api/v1/policy/preview"): "The body is a policy, as for `PUT /policy`.",
    ("post", "/api/v1/flows"): "The body is a list of flow records, all of them or none is taken:"
    " [the fields of a record](#flowmodel), without `sequence` and `received_at`.",
    (
        "post",
        "/api/v1/agents/{name}",
    ): "The body is a heartbeat, and `kind` says of which sort. `policy/wire/agents.py` has the keys of both.",
}

_PLACES = {"{name}": "ports"}
"""Values of the path's parameters in the recipes."""


def text() -> str:
    """The page."""
    document = openapi_document()
    schemas = sorted(document["components"]["schemas"].items())
    return page(
        "api",
        operations=joined(part for tag in document["tags"] for part in _group(document, tag)),
        models=joined(_model(name, schema) for name, schema in schemas if schema.get("properties")),
    )


def _group(document: Document, tag: Document) -> Iterator[str]:
    yield f"## {tag['name'].capitalize()}"
    yield sentence(tag["description"])
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if tag["name"] in operation["tags"]:
                yield from _operation(method, path, operation)


def _operation(method: str, path: str, operation: Document) -> Iterator[str]:
    yield f"### `{method.upper()} {path.removeprefix('/api/v1')}`"
    description = operation.get("description", "").replace("<br/>", " ")
    yield " ".join([sentence(operation.get("summary", "")), sentence(description)]).strip()
    rows = []
    for parameter in operation.get("parameters", []):
        schema, meaning = parameter["schema"], sentence(parameter.get("description", ""))
        given = schema.get("default")
        default = "required" if parameter.get("required") else "–" if given is None else code(str(given))
        rows.append((code(parameter["name"]), _kind(schema), default, meaning))
    if rows:
        yield table(("parameter", "kind", "default", "meaning"), rows)
    if help_text := _BODY_HELP.get((method, path)):
        yield help_text
    answers = []
    for status, answer in sorted(operation["responses"].items()):
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        if status < "300":
            content = _kind(schema) if schema else sentence(answer["description"])
            answers.append(f"Answer {status}: {content}")
    yield "; ".join(answers).removesuffix(".") + "."
    yield fence(recipe(method, path), "bash")


def recipe(method: str, path: str) -> str:
    """A call by curl."""
    place = path
    for parameter, value in _PLACES.items():
        place = place.replace(parameter, value)
    query = _QUERIES.get((method, path))
    address = f'"$URL{place}{"?" + query if query else ""}"'
    body = _BODIES.get((method, path))
    if body is None and method != "delete":
        return f"curl -sS {address}"
    lines = [f"curl -sS -X {method.upper()} {address}"]
    if body is not None:
        lines.append("-H 'Content-Type: application/json'")
    if method in ("put", "delete"):
        lines.append('-H "Authorization: Bearer $TOKEN"')
    if body is not None:
        lines.append(f"-d '{json.dumps(body)}'")
    return " \\\n  ".join(lines)


def _model(name: str, schema: Document) -> str:
    about = schema.get("description", "")
    rows = [
        (code(field), _kind(given), sentence(given.get("description", "")))
        for field, given in schema["properties"].items()
    ]
    parts = [f"### {name}", sentence(about), table(("field", "kind", "meaning"), rows)]
    return joined(part for part in parts if part)


def _kind(schema: Document) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(_kind(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return ", ".join(code(str(value)) for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), Mapping):
        inner = schema["additionalProperties"]
        return f"object of {_kind(inner)}" if inner else "object"
    kind, low, high = schema.get("type", "any"), schema.get("minimum"), schema.get("maximum")
    if low is None:
        return str(kind)
    return f"{kind} from {low:g}" if high is None else f"{kind} from {low:g} to {high:.12g}"
