# SPDX-License-Identifier: Apache-2.0
"""The bundles of a report: finding them, their flows, and grouping runs that differ only by seed and load.

Runs are compared by their scenarios as flat keys and values. SluiceError names a file that is damaged.
"""

import json
import re
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluice.policy.errors import SluiceError
from sluice.policy.fabrics import TESTBED
from sluice.policy.figures.scoreboard import ScoredFlows
from sluice.policy.schema.desired import Policy
from sluice.policy.schema.fields import POLICY_FIELDS, field_text
from sluice.policy.schemes import SCHEMES
from sluice.policy.units import US_PER_S
from sluice.policy.wire.records import SCHEDULED, SIZE_CLASSES
from sluice.runs.bundle import POLICIES, POLICY_VERSION, PORT_COLUMNS, QUEUE_COLUMNS, VERSIONS

DOCUMENTS = ("scenario", "meta", "summary")
FLOWS, PORTS, QUEUES = "flows.parquet", "ports.parquet", "queues.parquet"
FILES = (*(f"{name}.json" for name in DOCUMENTS), FLOWS)
"""The files that make a folder a bundle."""
FIGURES = ("fct_us", "slowdown", "deadlines", "retransmissions", "unfinished", "valid")
"""The keys of a summary that a report needs."""
COLUMNS = (
    *("bytes", "size_class", "started_at", "fct_us", "slowdown"),
    *("deadline_us", "met", "retransmissions", "scheme"),
)
"""The columns of flows.parquet that a report needs."""


def _documents(bundle: Path) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[int, Any]]:
    """Return scenario, meta, summary and the policies by version, and check that the tables can be read.

    There are no policies in a bundle without policies.json.
    """
    scenario, meta, summary = (_document(bundle / f"{name}.json", dict) for name in DOCUMENTS)
    _need(bundle / "scenario.json", scenario, ("name", "scheme", "workload"))
    _need(bundle / "scenario.json", scenario["scheme"], ("name",))
    _need(bundle / "summary.json", summary, FIGURES)
    _need(bundle / FLOWS, _columns(bundle / FLOWS), COLUMNS)
    for name, columns in ((PORTS, PORT_COLUMNS), (QUEUES, QUEUE_COLUMNS)):
        if (bundle / name).exists():
            _need(bundle / name, _columns(bundle / name), [column.name for column in columns])
    versions = _document(bundle / POLICIES, list) if (bundle / POLICIES).exists() else []
    for version in versions:
        _need(bundle / POLICIES, version, ("version", "policy"))
        _need(bundle / POLICIES, version["policy"], ("scheme",))
    return scenario, meta, summary, {version["version"]: version["policy"] for version in versions}


def _document(path: Path, kind: type) -> Any:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from None
    if not isinstance(document, kind):
        raise _damaged(path, f"it must be a {kind.__name__}")
    return document


def _columns(path: Path) -> Sequence[str]:
    try:
        return list(pq.read_schema(path).names)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(path, str(error)) from None


def _need(path: Path, value: object, keys: Sequence[str]) -> None:
    lacking = [key for key in keys if not isinstance(value, Mapping | list) or key not in value]
    if lacking:
        raise _damaged(path, f"it lacks {', '.join(lacking)}")


def _damaged(path: Path, why: str) -> SluiceError:
    return SluiceError(f"{path}: cannot be used: {why}; run the scenario again, or give another folder")


# ── Names of settings ────────────────────────────────────────────────────────────────────────────────


MAX_ITEMS = 8
NOTHING = "–"


def flat(document: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return {"fabric": {"hosts": 4}} as {"fabric.hosts": 4}; lists stay whole."""
    keys: dict[str, Any] = {}
    for key, value in document.items():
        if isinstance(value, Mapping):
            keys |= flat(value, f"{prefix}{key}.")
        else:
            keys[f"{prefix}{key}"] = value
    return keys


def shown(value: object) -> str:
    """Return a value as text. A short list of plain values is written in full, any other list as
    the number of its entries."""
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if not isinstance(value, list):
        return str(value)
    if len(value) > MAX_ITEMS:  # the hash makes different long lists look different
        fingerprint = zlib.crc32(json.dumps(value, sort_keys=True, default=str).encode())
        return f"{len(value)} entries ({fingerprint:08x})"
    entries = [
        ", ".join(f"{key} {shown(inner)}" for key, inner in entry.items())
        if isinstance(entry, Mapping)
        else shown(entry)
        for entry in value
    ]
    return " · ".join(entries)


# ── Runs ─────────────────────────────────────────────────────────────────────────────────────────────


BESIDE_THE_VARIANT = ("name", "seed", "workload.load")
"""Keys that may differ between runs of one variant."""
MAX_LABEL = 48

_SEED_FOLDER = re.compile(r"seed-\d+")
_LOAD_FOLDER = re.compile(r"load-[\d.e-]+")


@dataclass(frozen=True)
class Flows:
    """Columns of the finished scheduled flows, all of one length."""

    size_bytes: npt.NDArray[np.int64]
    size_class: npt.NDArray[np.str_]
    fct_us: npt.NDArray[np.float64]
    slowdown: npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Run:
    """One bundle."""

    folder: Path
    document: Mapping[str, Any]
    meta: Mapping[str, Any]
    summary: Mapping[str, Any]
    version: int | None = None
    """The version of the policy whose flows these are; None if all flows of the bundle lived under one."""
    planned_as: str | None = None
    """The scheme or variant that a sweep ran this as; None if the run is not part of a sweep."""
    policy: Mapping[str, Any] | None = None
    """The policy with all its fields; None in a bundle without policies.json."""

    @property
    def scheme(self) -> str:
        return str(self.document["scheme"]["name"])

    @property
    def load(self) -> float | None:
        load: float | None = self.document["workload"].get("load")
        return load

    @property
    def seed(self) -> int:
        return int(self.document.get("seed", 1))

    @property
    def on(self) -> str:
        return str(self.meta.get("on", TESTBED))

    @property
    def watched(self) -> Mapping[str, Any] | None:
        """The figures of other programs' flows; None if there were none, and in bundles that lack their FCT."""
        figures: Mapping[str, Any] = self.summary.get("watched", {})
        return figures if figures.get("n") and "fct_us" in figures else None

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Return the scenario's keys and values that distinguish variants."""
        keys = flat(self.document)
        return {key: value for key, value in keys.items() if key not in BESIDE_THE_VARIANT}

    @property
    def scale(self) -> float:
        """The scale of the flow sizes, and of the limits between the size classes."""
        return float(self.document["workload"].get("scale", 1.0))

    def flows(self) -> Flows:
        """Read the finished flows."""
        table = self._scheduled("bytes", "size_class", "fct_us", "slowdown")
        table = table.filter(table["fct_us"].is_valid())
        fct_us, slowdown = (table[name].to_numpy().astype(float) for name in ("fct_us", "slowdown"))
        return Flows(table["bytes"].to_numpy(), table["size_class"].to_numpy().astype(str), fct_us, slowdown)

    def scored(self) -> ScoredFlows:
        """Read the flows for a scoreboard, also the unfinished ones."""
        table = self._scheduled(*COLUMNS)
        began_s, fct_us = table["started_at"].to_numpy(), table["fct_us"].to_numpy().astype(float)
        classes = [SIZE_CLASSES.index(name) for name in table["size_class"].to_pylist()]
        return ScoredFlows(
            began_s=began_s,
            ended_s=began_s + fct_us / US_PER_S,
            fct_us=fct_us,
            slowdown=table["slowdown"].to_numpy().astype(float),
            size_class=np.asarray(classes, np.uint8),
            has_deadline=table["deadline_us"].is_valid().to_numpy(),
            missed=np.asarray([met is False for met in table["met"].to_pylist()], bool),
            retransmissions=table["retransmissions"].to_numpy().astype(float),
            scheme=np.asarray(table["scheme"].to_pylist(), np.str_),
        )

    def _scheduled(self, *columns: str) -> pa.Table:
        """Read the scheduled flows from the file each time, because a report of many runs must not hold all
        of them in memory."""
        file = pq.ParquetFile(self.folder / FLOWS)
        wanted = {*columns, "source", POLICY_VERSION.name}
        table = file.read([name for name in file.schema_arrow.names if name in wanted])
        if "source" in table.column_names:  # without this column all flows were scheduled
            table = table.filter(pc.equal(table["source"], SCHEDULED))
        if self.version is not None:
            table = table.filter(pc.equal(table[POLICY_VERSION.name], self.version))
        return table


@dataclass(frozen=True, eq=False)
class Variant:
    """One line of a plot: a scheme with its settings, under any load and seed."""

    label: str
    scheme: str
    runs: tuple[Run, ...]
    style: int = 0
    """Number among the variants of its scheme. They share a colour and differ by their dashes."""

    @property
    def colour(self) -> str:
        definition = SCHEMES.get(self.scheme)
        return definition.colour if definition else "#777777"

    def at(self, load: float | None) -> list[Run]:
        return [run for run in self.runs if run.load == load]


def repeats(variant: Variant) -> list[str]:
    """Return the folders of the runs that have exactly the figures of an earlier one with another seed."""
    first: dict[str, Run] = {}
    return [
        str(run.folder)
        for run in sorted(variant.runs, key=lambda run: run.seed)
        if run.summary["fct_us"]["all"]["n"]
        and first.setdefault(json.dumps([run.load, run.summary["slowdown"]]), run).seed != run.seed
    ]


def find_runs(folders: Iterable[Path]) -> list[Run]:
    """Return every bundle in these folders, in the order of their paths. SluiceError names a
    folder without one."""
    runs_of: dict[Path, list[Run]] = {}
    for folder in folders:
        bundles = sorted({path.parent for path in folder.rglob("summary.json")})
        bundles = [bundle for bundle in bundles if all((bundle / name).exists() for name in FILES)]
        if not bundles:
            raise SluiceError(
                f"{folder}: the folder holds no finished run; give a folder that `sluice run` or `sluice sweep` wrote"
            )
        runs_of |= {bundle.resolve(): _read(bundle) for bundle in bundles}
    return [run for runs in runs_of.values() for run in runs]


def _read(bundle: Path) -> list[Run]:
    """Return a run, or one run for each version of the policy if flows lived under several."""
    scenario, meta, summary, policies = _documents(bundle)
    if VERSIONS not in summary:
        policy = policies[min(policies)] if policies else None
        folder, planned_as = bundle.resolve(), None
        if _SEED_FOLDER.fullmatch(folder.name):  # SWEEP/pias/load-0.8/seed-01 is planned as `pias`
            above = folder.parent.parent if _LOAD_FOLDER.fullmatch(folder.parent.name) else folder.parent
            planned_as = above.name if (above.parent / "sweep.json").exists() else None
        return [Run(bundle, scenario, meta, summary, planned_as=planned_as, policy=policy)]
    if not summary[VERSIONS]:
        raise SluiceError(
            f"{bundle}: no flow lived wholly under one version of the policy; change it less often"
        )
    runs = []
    for version, figures in summary[VERSIONS].items():
        policy = policies[int(version)]
        default = Policy.from_document({"scheme": policy["scheme"]}).to_document()
        # As a scenario names a policy: the scheme, and what differs from its defaults.
        own = {key: value for key, value in policy.items() if value != default.get(key)}
        document = {**scenario, "scheme": {"name": policy["scheme"], **own}}
        under_version = {**figures, "valid": summary["valid"]}
        runs.append(Run(bundle, document, meta, under_version, version=int(version), policy=policy))
    return runs


def variants(runs: Sequence[Run]) -> list[Variant]:
    """Group the runs that differ only by seed and load, in the order of the schemes, then of the labels."""
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        groups[_identity(run)].append(run)
    several_fabrics = len({run.on for run in runs}) > 1
    labels = _labels(list(groups.values()))
    order = list(SCHEMES)
    ordered = [
        Variant(f"{label} ({group[0].on})" if several_fabrics else label, group[0].scheme, tuple(group))
        for label, group in zip(labels, groups.values(), strict=True)
    ]
    ordered.sort(key=lambda v: (order.index(v.scheme) if v.scheme in order else len(order), v.label))
    of_colour: dict[str, int] = defaultdict(int)
    styled = []
    for variant in ordered:
        styled.append(Variant(variant.label, variant.scheme, variant.runs, of_colour[variant.colour]))
        of_colour[variant.colour] += 1
    return styled


def _identity(run: Run) -> str:
    """Return a key that is equal for runs of one variant, also if a sweep changed settings with the load."""
    if run.planned_as is not None:
        return json.dumps(
            [run.on, run.planned_as, str(run.folder.resolve().parents[1 + (run.load is not None)])]
        )
    return json.dumps([run.on, run.version, run.settings], sort_keys=True, default=str)


def _labels(groups: list[list[Run]]) -> list[str]:
    """Return the scheme's name, with what distinguishes it from its other variants. A long
    difference gives the folder's name."""
    names = [group[0].planned_as or group[0].scheme for group in groups]
    labels = []
    for name, (run, *_) in zip(names, groups, strict=True):
        rivals = [
            other[0]
            for other_name, other in zip(names, groups, strict=True)
            if other_name == name and other[0] is not run and other[0].on == run.on
        ]
        keys = sorted({key for rival in rivals for key in differing([run, rival])})
        values = [f"{key.rpartition('.')[2]} {shown(run.settings.get(key))}" for key in keys]
        label = f"{name} ({', '.join(values)})"
        if not rivals:
            label = name
        elif run.version is not None:
            label = f"{name} (version {run.version})"
        elif not keys or len(label) > MAX_LABEL:
            label = str(run.folder)
        labels.append(label)
    return labels


def differing(runs: Sequence[Run]) -> list[str]:
    """Return the scenario keys, in their order, that do not have one value in all runs."""
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    return [key for key in keys if len({shown(run.settings.get(key)) for run in runs}) > 1]


def classes_present(runs: Iterable[Run]) -> list[str]:
    """Return the size classes in which any run has a finished flow."""
    present = {name for run in runs for name in SIZE_CLASSES if run.summary["fct_us"][name]["n"]}
    return [name for name in SIZE_CLASSES if name in present]


# ── Settings of the variants ─────────────────────────────────────────────────────────────────────────


def differences(
    variants: Sequence[Variant], besides: tuple[str, ...] = ()
) -> tuple[list[str], list[tuple[Variant, list[str]]]]:
    """Return the keys in which the variants' scenarios differ, and each variant's values, over all
    loads and seeds. Keys that begin as one of `besides` are left out."""
    keys = differing([run for variant in variants for run in variant.runs])
    keys = [key for key in keys if not key.startswith(besides)]
    if all(variant.label == variant.scheme for variant in variants):
        keys = [key for key in keys if key != "scheme.name"]  # the label has it
    return keys, [(variant, [_value(variant, key) for key in keys]) for variant in variants]


def _value(variant: Variant, key: str) -> str:
    return _by_load(variant, lambda run: shown(run.settings.get(key)))


def _by_load(variant: Variant, value_of: Callable[[Run], str]) -> str:
    """Return the value that all runs of a variant share, or its value at each load."""
    values = list(dict.fromkeys(map(value_of, variant.runs)))
    if len(values) == 1:
        return values[0]
    by_load = {f"{run.load:g}": value_of(run) for run in variant.runs if run.load is not None}
    return "; ".join(f"at {load}: {value}" for load, value in sorted(by_load.items())) or "differs"


@dataclass(frozen=True)
class Parameter:
    """A field of the policy, with its value under each variant."""

    name: str
    title: str
    values: tuple[str, ...]
    differs: bool


def parameters(variants: Sequence[Variant]) -> list[Parameter]:
    """Return the fields of the policies as they ran, without the scheme's name and fields that no variant has."""
    if all(run.policy is None for variant in variants for run in variant.runs):
        return []
    shown_fields = []
    for field in (field for field in POLICY_FIELDS if field.name != "scheme"):
        values = tuple(_by_load(variant, partial(_in_policy, field.name)) for variant in variants)
        if any(value != NOTHING for value in values):
            shown_fields.append(Parameter(field.name, field.title, values, len(set(values)) > 1))
    return shown_fields


def _in_policy(name: str, run: Run) -> str:
    if run.policy is None:
        return NOTHING
    value = run.policy.get(name)
    text = field_text(run.scheme, name, value) if run.scheme in SCHEMES else shown(value)
    return text.replace('"', "").strip("[]")


def common(variants: Sequence[Variant], besides: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    """Return the scenario's tables with the values that all runs share, without keys that begin as in `besides`."""
    runs = [run for variant in variants for run in variant.runs]
    different = set(differing(runs))
    tables: dict[str, list[str]] = {}
    for key, value in runs[0].settings.items():
        if key not in different and not key.startswith(besides):
            table, _, name = key.rpartition(".")
            tables.setdefault(table or "scenario", []).append(f"{name} {shown(value)}")
    return [(table, ", ".join(values)) for table, values in tables.items()]
