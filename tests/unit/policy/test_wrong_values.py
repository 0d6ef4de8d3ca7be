# SPDX-License-Identifier: Apache-2.0
"""Every key of a scenario gets every wrong value: an error names the key. No other exception, and no silence."""

import copy
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from sluice.policy.errors import FieldError
from sluice.policy.schema.entries import Entry, entries, entry_schema
from sluice.policy.schema.fields import scheme_fields
from sluice.policy.schema.kinds import Quantity
from sluice.policy.schemes import SCHEMES
from sluice.policy.workload import scenario
from sluice.policy.workload.flows import Deadlines
from sluice.policy.workload.listed_flows import ExplicitFlow, FlowTable
from sluice.policy.workload.sizes import parse_cdf
from sluice.policy.workload.tables import (
    FlowTableKeys,
    IncastBeside,
    IncastKeys,
    MixKeys,
    RandomKeys,
    ShiftKeys,
)
from sluice.topologies import TOPOLOGIES, build_topology

RING = Path(__file__).parents[1] / "topologies" / "ring.toml"
VALUES: tuple[object, ...] = (
    *("", "x", "\0", "-1", "nan", "1e300KB", "-1KB", "0ms", "9" * 18 + "GB", "9" * 18 + "s", "é" * 5000),
    *(0, -1, 1, 2**63, 10**400, 0.5, math.nan, -math.inf, 1e300),
    *(True, [], {}, [1], [None], {"x": 1}, [{}], [-1, "1KB"]),
)
COLUMNS, ROW = ("time", "src", "dst", "bytes"), {"time": "0s", "src": "h1", "dst": "h2", "bytes": "1KB"}
RANDOM = {"flows": 10, "sizes": "web-search", "load": 0.5}
BASES: dict[str, dict[str, Any]] = {
    "random": RANDOM,
    "incast": {"flows": 10, "pattern": "incast", "load": 0.5, "fanin": 2, "bytes": "20KB"},
    "table": {"trace": "a.csv"},
    "mix": {"flows": 10, "mix": [{"share": 1.0, "bytes": "1KB"}], "load": 0.5},
    "shift": {**RANDOM, "shift": {"at": 0.5, "sizes": "web-search"}},
    "shifts": {**RANDOM, "shift": [{"at": 0.2, "sizes": "web-search"}, {"at": 0.5, "sizes": "web-search"}]},
    "beside": {**RANDOM, "incast": {"share": 0.5, "fanin": 2, "bytes": "20KB"}},
    "listed": {"flow": [{"from": "h1", "to": "h2", "bytes": "1MB", "deadline": "1s"}]},
}
TABLES: dict[str, tuple[type, str]] = {
    "": (scenario.ScenarioKeys, "random"),
    "fabric": (scenario.FabricKeys, "random"),
    "transport": (scenario.Transport, "random"),
    "simulator": (scenario.SimulatorSettings, "random"),
    "simulator.tcp": (scenario.TcpVariant, "random"),
    "deadlines": (Deadlines, "random"),
    "background[0]": (scenario.Background, "random"),
    "workload": (RandomKeys, "random"),
    "workload ": (IncastKeys, "incast"),
    "workload  ": (FlowTableKeys, "table"),
    "workload.mix[0]": (MixKeys, "mix"),
    "workload.shift": (ShiftKeys, "shift"),
    "workload.shift[0]": (ShiftKeys, "shifts"),
    "workload.incast": (IncastBeside, "beside"),
    "workload.flow[0]": (ExplicitFlow, "listed"),
}
"""Table, as messages write it → its keys, and the workload of a scenario that has it. Spaces tell equal names apart."""


def document(workload: str, scheme: str = "pias", topology: str = "single", **fabric: str) -> dict[str, Any]:
    made = {
        "name": "x",
        "fabric": {"topology": topology, **fabric},
        "scheme": {"name": scheme},
        "workload": copy.deepcopy(BASES[workload]),
    }
    return (
        made
        if workload in ("listed", "table")
        else {**made, "deadlines": {"share": 0.5, "min": "1ms", "max": "2ms"}}
    )


def read(given: Mapping[str, Any]) -> None:
    build_topology(
        scenario.scenario_from_document(
            given,
            lambda name: parse_cdf(name, "1 0\n1000 1" if name == "web-search" else name),
            lambda name: FlowTable(name, COLUMNS, [("line 2", ROW)] if name == "a.csv" else []),
        )
    )


def put(given: dict[str, Any], table: str, key: str, value: object) -> None:
    """Set a key of a table such as `workload.mix[0]`, and make the table if necessary."""
    place: Any = given
    for step in filter(None, table.strip().split(".")):
        name, listed, _ = step.partition("[")
        place = place.setdefault(name, [{}] if listed else {})
        place = place[0] if listed else place
    place[key] = value


def keys() -> Iterator[Any]:
    for table, (cls, workload) in TABLES.items():
        for one in entries(cls):
            yield pytest.param(document(workload), table, one, id=f"{table.strip()}.{one.key}".strip("."))
    for kind, module in TOPOLOGIES.items():
        for one in entries(module.Parameters):
            given = {"file": str(RING)} if kind == "file" else {}
            yield pytest.param(
                document("random", topology=kind, **given), "fabric", one, id=f"{kind}.{one.key}"
            )
    first = {one.key: (name, one) for name in reversed(SCHEMES) for one in scheme_fields(SCHEMES[name])}
    for key, (name, one) in first.items():  # one scheme that has the field
        yield pytest.param(document("random", name), "scheme", one, id=f"{name}.{key}")


def fits(one: Entry, value: object) -> bool:
    """Return whether the schema, which the reference and the API publish, allows the value."""
    return bool(jsonschema.Draft202012Validator(entry_schema(one)).is_valid(value))


@pytest.mark.parametrize(("given", "table", "one"), list(keys()))
def test_every_wrong_value_is_refused_by_the_name_of_its_key(
    given: dict[str, Any], table: str, one: Entry
) -> None:
    read(given)
    path = f"{table.strip()}.{one.key}".strip(".")
    for value in VALUES:
        tried, shown = copy.deepcopy(given), f"{path} = {value!r:.80}"
        put(tried, table, one.key, value)
        refusal = refused(tried)
        assert refusal or fits(one, value), f"{shown} was accepted"
        assert not refusal or fits(one, value) or refusal.field.startswith(path.partition("[")[0]), (
            f"{shown}: {refusal}"
        )
        assert len(str(refusal)) < 1000, shown


def refused(given: Mapping[str, Any]) -> FieldError | None:
    try:
        read(given)
    except FieldError as error:
        return error
    return None


@pytest.mark.parametrize("name", ["fabic", "Scheme", "work load", "", "\0", "x" * 10_000])
def test_a_misspelt_table_is_named_first(name: str) -> None:
    given = document("random")
    given[name] = given.pop("scheme")
    with pytest.raises(FieldError, match="is not a key here") as caught:
        read(given)
    assert name[:64] in str(caught.value)


@pytest.mark.parametrize("key", ["scheme", "nme", "bufer", "Queues", "", "\0", "x" * 10_000])
def test_a_misspelt_key_of_the_scheme_is_named_as_the_scenario_writes_it(key: str) -> None:
    given = document("random")
    given["scheme"][key] = "pias"
    with pytest.raises(FieldError, match="is not a key here") as caught:
        read(given)
    assert caught.value.field == f"scheme.{key}"
    assert "allowed keys: name, queues" in caught.value.problem


@pytest.mark.parametrize("name", ["s1:99", "s9:1", "s9:*", "S1:1"])
@pytest.mark.parametrize("key", ["overrides[0].ports", "acts_at"])
def test_a_port_that_the_scenarios_network_lacks_is_named(key: str, name: str) -> None:
    given = document("random", "mlfq-adaptive")
    value: list[Any] = [name] if key == "acts_at" else [{"ports": [name], "freeze": True}]
    given["scheme"][key.partition("[")[0]] = value
    with pytest.raises(FieldError, match="the network has no port") as caught:
        read(given)
    assert caught.value.field == f"scheme.{key}"
    assert name in caught.value.problem
    given["scheme"][key.partition("[")[0]] = (
        ["s1:*"] if key == "acts_at" else [{"ports": ["*"], "freeze": True}]
    )
    read(given)


def test_quantities_have_an_upper_bound() -> None:
    """Each quantity fits 64 bits in its base unit, because the simulator and the kernel count in them."""
    for cls, _ in TABLES.values():
        assert all(one.kind.high < 2**63 for one in entries(cls) if isinstance(one.kind, Quantity))


def test_the_example_of_a_quantity_is_allowed() -> None:
    """It is the remedy in messages, such as for a `sample` that is too short."""
    for cls, _ in TABLES.values():
        for one in entries(cls):
            if isinstance(one.kind, Quantity):
                one.kind.read(one.key, one.kind.example)
