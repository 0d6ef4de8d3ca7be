# SPDX-License-Identifier: Apache-2.0
"""Reads scenario, distribution and flow files, changes keys of them, and finds the fabric that runs a scenario.

`policy` checks the content of the files. A command line changes keys: --set TABLE.KEY=VALUE of a scenario, KEY=VALUE
of a policy.
"""

import copy
import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from functools import cache, partial
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sluice.policy.errors import FieldError, SluiceError, guess
from sluice.policy.fabrics import SIMULATOR, TESTBED, check_fabric
from sluice.policy.network.graph import Topology
from sluice.policy.schema.fitting import NetworkPath, path_of
from sluice.policy.workload.listed_flows import SUFFIXES, FlowTable, Row, is_foreign, parse_list
from sluice.policy.workload.scenario import Fabric, Scenario, check_topology, scenario_from_document
from sluice.policy.workload.sizes import SizeCdf, parse_cdf
from sluice.policy.workload.tables import LoadCdf, LoadTrace
from sluice.runtime import plugins
from sluice.runtime.toml import NotToml, exists, is_file, parse_toml, read_toml


def changed(document: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document with the values of `settings`, by key ("fabric.buffer"). SluiceError names a wrong key."""
    resolved = copy.deepcopy(dict(document))
    for key, value in settings.items():
        *path, last = key.split(".")
        table = resolved
        for step in path:
            table = table.setdefault(step, {})
            if not isinstance(table, dict):
                raise SluiceError(f"--set {key}: {step} is not a table")
        table[last] = value
    return resolved


def setting(text: str, option: str = "--set", example: str = "fabric.buffer=240KB") -> tuple[str, Any]:
    """Return `table.key=value` as a key and its value. SluiceError names the option and shows the example."""
    key, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", key):
        raise SluiceError(f"{option} {text}: must be key=value, for example {option} {example}")
    return key, toml_value(value)


def toml_value(text: str) -> Any:
    """Return the TOML value. Other text stays text, so rto_min=2ms needs no quotes."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except NotToml:
        return text


# ── Tables of flows ──────────────────────────────────────────────────────────────────────────────────


_MOST_AT_ONCE = 10_000
"""Rows of a Parquet file in memory."""


def load_flow_table(path: Path) -> FlowTable:
    """Return the table in a file. Its rows are read later. Raises FieldError, OSError and ValueError."""
    delimiter = ","
    rows: Callable[[], Iterator[Row]] = partial(_parquet_rows, path)
    if path.suffix == ".parquet":
        from pyarrow import parquet

        columns = parquet.read_schema(path).names
    else:
        with path.open(newline="", encoding="utf-8-sig") as file:
            header = file.readline()
        delimiter = ";" if ";" in header and "," not in header else ","
        columns = [column.strip() for column in next(csv.reader([header], delimiter=delimiter), [])]
        rows = partial(_csv_rows, path, columns, delimiter)
    first = next((row for _, row in rows()), {})
    hosts = _hosts_by_address(rows()) if all(_address(first.get(end)) for end in _ENDS) else {}
    change, said = _as_our_columns(columns, first, delimiter, hosts)
    return FlowTable(str(path), columns, ((place, change(row)) for place, row in rows()), "; ".join(said))


_EPOCH_S = 10**8
"""Times from this on are seconds since 1970."""
_ENDS = ("src", "dst")
_Address = IPv4Address | IPv6Address


def _address(text: object) -> _Address | None:
    try:
        return ip_address(str(text).strip())
    except ValueError:
        return None


def _hosts_by_address(rows: Iterable[Row]) -> dict[_Address, str]:
    """Return address → host, in the order of all addresses in these rows. The lowest one is h1."""
    found = {address for _, row in rows for end in _ENDS if (address := _address(row[end]))}
    ordered = sorted(found, key=lambda address: (address.version, int(address)))
    return {address: f"h{i}" for i, address in enumerate(ordered, start=1)}


def _as_our_columns(
    columns: Sequence[str], first: Mapping[str, Any], delimiter: str, hosts: Mapping[_Address, str]
) -> tuple[Callable[[Mapping[str, Any]], Mapping[str, Any]], list[str]]:
    """Return what turns a row into one of ours, by the first row, and what to say about it."""
    said = [f"column {column} has no effect" for column in columns if is_foreign(column)]
    numbered = all(str(first.get(end, "")).strip().isdigit() for end in _ENDS)
    if numbered:
        said.append("hosts are numbered from 0: 0 is h1")
    if hosts:
        said.append(f"hosts are the {len(hosts)} addresses in their order: {next(iter(hosts))} is h1")
    time = next((column for column in columns if column.startswith("time_")), None)
    text = str(first.get(time, "")).replace(",", ".") if time else ""
    since = Decimal(text) if time == "time_s" and _is_decimal(text) and Decimal(text) >= _EPOCH_S else None
    if since is not None:
        said.append(f"times count from {since} on")

    def change(row: Mapping[str, Any]) -> Mapping[str, Any]:
        values = dict(row)
        if delimiter == ";":
            values = {name: value.replace(",", ".") for name, value in values.items()}
        if numbered:
            values |= {end: f"h{int(values[end]) + 1}" for end in _ENDS if str(values[end]).strip().isdigit()}
        if hosts:
            values |= {end: hosts[address] for end in _ENDS if (address := _address(values[end]))}
        if since is not None and time is not None and _is_decimal(text := str(values[time])):
            values[time] = str(Decimal(text) - since)
        return values

    return change, said


def _is_decimal(text: str) -> bool:
    try:
        return Decimal(text.strip()).is_finite()
    except InvalidOperation:
        return False


def _csv_rows(path: Path, columns: Sequence[str], delimiter: str) -> Iterator[Row]:
    """Yield the rows after the first. Empty lines and lines that start with # are no rows."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, delimiter=delimiter)
        try:
            next(lines, None)
            for values in lines:
                if not values or values[0].lstrip().startswith("#"):
                    continue
                place = f"line {lines.line_num}"
                if len(values) != len(columns):
                    raise FieldError(place, f"has {len(values)} values, but there are {len(columns)} columns")
                yield place, dict(zip(columns, values, strict=True))
        except (ValueError, csv.Error) as error:
            raise FieldError(f"line {lines.line_num + 1}", f"cannot be read: {error}") from None


def _parquet_rows(path: Path) -> Iterator[Row]:
    from pyarrow import parquet

    number = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches(batch_size=_MOST_AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield f"row {number}", row
    except (OSError, ValueError) as error:
        raise FieldError(f"row {number + 1}", f"cannot be read: {error}") from None


# ── Scenarios and what they name ─────────────────────────────────────────────────────────────────────


_DATA = Path(__file__).parents[1] / "data"
WORKLOADS = _DATA / "workloads"
SCENARIOS = _DATA / "scenarios"

Parsed = TypeVar("Parsed")


def load_cdf(name: str) -> SizeCdf:
    """Return a distribution, by the name of a file in sluice/data/workloads or in a plugin, or by path."""
    named = plugins.WORKLOADS.get(name, WORKLOADS / f"{name}.cdf")
    path = Path(name) if name.endswith(".cdf") or (not is_file(named) and is_file(Path(name))) else named
    if not is_file(path):
        names = known_workloads()
        raise FieldError(
            "workload.sizes",
            f"there is no file {path}{guess(name, names)}; the known names are {', '.join(names)}; "
            "otherwise give the path of a .cdf file",
        )
    cdf = _parsed("workload.sizes", path, parse_cdf)
    say_once(path, cdf.notice)
    return cdf


def known_workloads() -> list[str]:
    """Return the names of the distributions that Sluice and its plugins include."""
    return sorted({*plugins.WORKLOADS, *(path.stem for path in WORKLOADS.glob("*.cdf"))})


def scenario_names() -> list[str]:
    """Return the names of the scenarios that Sluice includes."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


_TRACES = f"give a table of flows ({', '.join(SUFFIXES)}), or a list of HPCC's, Homa's or htsim's simulator"


def load_trace(name: str) -> FlowTable:
    """Return a table or a list of flows, by path."""
    path = Path(name)
    if not is_file(path):
        raise FieldError(
            "workload.trace",
            f"there is no file {path}: {_TRACES}",
        )
    if path.suffix not in SUFFIXES:
        table = _parsed("workload.trace", path, parse_list)
        if table is None:
            raise FieldError("workload.trace", f"{path} is no list of flows: {_TRACES}")
    else:
        try:
            table = load_flow_table(path)
        except FieldError as error:
            raise FieldError("workload.trace", f"{path}: {error}") from None
        except (OSError, ValueError, csv.Error) as error:
            raise FieldError(
                "workload.trace", f"cannot read {path} ({error}); give a table of flows"
            ) from None
    say_once(path, table.notice)
    return table


@cache
def say_once(path: Path, notice: str) -> None:
    """Print how a file was understood, once in a process."""
    if notice:
        print(f"{path}: {notice}", file=sys.stderr)


def _parsed(field: str, path: Path, parse: Callable[[str, str], Parsed]) -> Parsed:
    """Return the parsed content of a file that a scenario names. Errors name the key, the file and the line."""
    try:
        return parse(str(path), path.read_text(encoding="utf-8-sig"))
    except FieldError as error:
        raise FieldError(field, str(error)) from None
    except (OSError, UnicodeDecodeError) as error:
        raise FieldError(field, f"cannot read {path} ({error}); give a text file") from None


class Resolved(NamedTuple):
    """A checked scenario: its values, its document with all changes, and its network."""

    scenario: Scenario
    document: dict[str, Any]
    topology: Topology


def resolve(document: dict[str, Any], cdf: LoadCdf = load_cdf, trace: LoadTrace = load_trace) -> Resolved:
    """Return a checked scenario. It is also checked against its network: named hosts must exist, and no link may have
    more load than it can carry. FieldError names the key.

    `cdf` and `trace` read the distribution and the table of flows that it names.
    """
    # Here, because `sluice policy` reads its words with this file where no package has the topologies.
    from sluice.topologies import build_fabric

    networks: list[Topology] = []

    def path(fabric: Fabric) -> NetworkPath | None:
        networks.append(build_fabric(fabric))
        return path_of(networks[0])

    scenario = scenario_from_document(document, cdf, trace, path)
    check_topology(scenario, networks[0])
    return Resolved(scenario, document, networks[0])


def read_document(path: Path) -> dict[str, Any]:
    """Return the tables of a TOML file, or of the scenario.json of a bundle.

    `path` can also be the bare name of a file in sluice/data/scenarios.
    """
    if not path.suffix and not exists(path):
        path = SCENARIOS / f"{path.name}.toml"
    try:
        return _read_json(path) if path.suffix == ".json" else read_toml(path)
    except FileNotFoundError:
        names = scenario_names()
        near = guess(path.stem, names)
        raise SluiceError(
            f"{path}: no such file{near}; the included scenarios are {', '.join(names)}"
        ) from None
    except IsADirectoryError:
        inner = path / "scenario.json"
        raise SluiceError(f"{path}: is a folder; give {inner if inner.exists() else 'a TOML file'}") from None
    except OSError as error:
        raise SluiceError(f"{path}: cannot be read ({error.strerror}); give a TOML file") from None
    except NotToml as error:
        raise SluiceError(f"{path}: not TOML: {error}") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise SluiceError(f"{path}: not JSON: {error}") from None
    if not isinstance(document, dict):
        raise SluiceError(f"{path}: must be an object with the tables of a scenario")
    return document


def scenario_from_file(path: Path, settings: Mapping[str, Any] | None = None) -> Resolved:
    """Return the checked scenario of a file, without the plan for sweeps. Errors name the file and the key.

    `settings` change keys of the file ("workload.flows").
    """
    given = {key: value for key, value in read_document(path).items() if key != "sweep"}
    document = changed(given, settings or {})
    try:
        return resolve(document)
    except FieldError as error:
        raise SluiceError(f"{path}: {error}") from None


def scenario_with(document: Mapping[str, Any], **tables: Any) -> Resolved:
    """Return the same scenario with changed keys: tables merge key by key, plain values replace.

    A new scheme name replaces the whole table, because settings of one scheme do not apply to
    another.
    """
    merged: dict[str, Any] = {key: dict(v) if isinstance(v, Mapping) else v for key, v in document.items()}
    for key, value in tables.items():
        if isinstance(value, Mapping) and not (key == "scheme" and "name" in value):
            merged[key] = {**merged.get(key, {}), **value}
        else:
            merged[key] = value
    return resolve(merged)


# ── Fabrics ──────────────────────────────────────────────────────────────────────────────────────────


FABRICS = (TESTBED, SIMULATOR)


def check_on(scenario: Scenario, on: str) -> None:
    """Raise FieldError if this fabric cannot run the scenario. It compiles and starts nothing."""
    check_fabric(scenario.policy, on)
    if on == SIMULATOR:
        from sluice.simulator.limits import check_scenario

        check_scenario(scenario)
    else:
        refuse_times(scenario)


def refuse_times(scenario: Scenario) -> None:
    """Raise FieldError if the scenario says when its figures begin or when it ends. Only runs on the simulator can."""
    for key, value in (
        ("measure_from", scenario.simulator.measure_from_s),
        ("until", scenario.simulator.until_s),
    ):
        if value:
            raise FieldError(
                f"simulator.{key}",
                f"is for `sluice run` and `sluice sweep` on the simulator: omit it, or use them --on {SIMULATOR}",
            )


def need_root(otherwise: str = "") -> None:
    """Raise SluiceError unless this process has root rights. `otherwise`: what the user can do without them."""
    if os.geteuid() != 0:
        raise SluiceError(
            f"the testbed makes network namespaces and loads BPF: run this as root (sudo){otherwise}"
        )


def runner(on: str) -> Callable[..., dict[str, Any]]:
    """Return the function that runs a scenario on that fabric: (resolved scenario, out, report) -> summary.

    Raises an error if the fabric lacks something. Only the chosen one is imported.
    """
    if on == SIMULATOR:
        from sluice.runs.simulator_run import run_on_simulator
        from sluice.simulator import build

        build.build()
        return run_on_simulator
    need_root(f", or without root with --on {SIMULATOR}")
    from sluice.runs.testbed_run import run_on_testbed

    return run_on_testbed
