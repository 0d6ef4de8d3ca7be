# SPDX-License-Identifier: Apache-2.0
"""The report's tables as rows of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from sluice.field_text import field_text
from sluice.policy.schema.fields import POLICY_FIELDS
from sluice.policy.schemes import SCHEMES
from sluice.policy.wire.records import MEDIUM_LIMIT_BYTES, SMALL_LIMIT_BYTES
from sluice.report.numbers import (
    NOTHING,
    PLAIN,
    Estimate,
    count,
    estimate,
    miss_ratio,
    of_class,
    percent,
    ratio,
    size_text,
    time_scale,
)
from sluice.report.runs import Run, Variant, differing, shown

FCT_COLUMNS = ("mean", "p50", "p95", "p99")


@dataclass(frozen=True)
class Row:
    """The row of one variant."""

    variant: Variant
    cells: tuple[str, ...]
    best: bool = False
    """Whether its mean is the lowest of the section."""


@dataclass(frozen=True)
class Section:
    """Rows that share a heading and a unit."""

    heading: str
    unit: str
    rows: tuple[Row, ...]


def class_limits(group: str, scale: float) -> str:
    """Return the class's limits of size as text, scaled as in the workload."""
    small, medium = (size_text(round(limit * scale)) for limit in (SMALL_LIMIT_BYTES, MEDIUM_LIMIT_BYTES))
    return {
        "small": f"up to {small}",
        "medium": f"{small} to {medium}",
        "large": f"over {medium}",
        "all": "",
    }[group]


def fct_sections(
    variants: Sequence[Variant], baseline: Variant, load: float | None, classes: Sequence[str]
) -> list[Section]:
    """Return FCT and slowdown of every variant at a load, by class."""
    return [_fct_section(variants, baseline, load, group) for group in (*classes, "all")]


def _fct_section(variants: Sequence[Variant], baseline: Variant, load: float | None, group: str) -> Section:
    runs = {variant: variant.at(load) for variant in variants}
    times = {v: [of_class(runs[v], "fct_us", group, name) for name in FCT_COLUMNS] for v in variants}
    slow = {v: [of_class(runs[v], "slowdown", group, name) for name in ("mean", "p99")] for v in variants}
    scale = time_scale([figure.mean for row in times.values() for figure in row if figure])
    means = [row[0].mean for row in times.values() if row[0]]
    rows = []
    for variant in variants:
        flows = sum(run.summary["fct_us"][group]["n"] for run in runs[variant])
        cells = [count(flows), *map(scale.show, times[variant]), *map(PLAIN.show, slow[variant])]
        cells.append(_ratio_text(runs[variant], baseline.at(load), group))
        mean = times[variant][0]
        best = len(means) > 1 and mean is not None and mean.mean == min(means)
        rows.append(Row(variant, tuple(cells), best))
    limits = class_limits(group, variants[0].runs[0].scale)
    return Section(f"{group} flows" + (f", {limits}" if limits else ""), f"FCT in {scale.unit}", tuple(rows))


def _ratio_text(runs: Sequence[Run], to: Sequence[Run], group: str) -> str:
    found = ratio(runs, to, lambda some: of_class(some, "fct_us", group, "mean"))
    return NOTHING if found is None else PLAIN.show(Estimate(found.mean, None, found.n))


def completeness(variants: Sequence[Variant], load: float | None) -> list[Row]:
    """Return seeds, flows, unfinished flows, deadlines, retransmissions and validity."""
    return [_completeness(variant, variant.at(load)) for variant in variants]


def _completeness(variant: Variant, runs: Sequence[Run]) -> Row:
    finished, unfinished = (
        sum(run.summary["fct_us"]["all"]["n"] for run in runs),
        sum(run.summary["unfinished"] for run in runs),
    )
    deadlines, missed = (sum(run.summary["deadlines"][key] for run in runs) for key in ("n", "missed"))
    seeds = ", ".join(str(run.seed) for run in sorted(runs, key=lambda run: run.seed))
    invalid = sum(not run.summary["valid"]["ok"] for run in runs)
    return Row(
        variant,
        (
            seeds or NOTHING,
            count(finished + unfinished),
            count(unfinished),
            count(deadlines) if deadlines else NOTHING,
            count(missed) if deadlines else NOTHING,
            percent(miss_ratio(runs)),
            _retransmissions(runs),
            f"{invalid} of {len(runs)} not" if invalid else "yes",
        ),
    )


def applications(variants: Sequence[Variant], load: float | None) -> list[Row]:
    """Return FCT, slowdown and deadlines of the flows that other programs had during the runs.

    There are no rows without such flows.
    """
    rows = [_applications(variant, variant.at(load)) for variant in variants]
    return [row for row in rows if row is not None]


def _applications(variant: Variant, runs: Sequence[Run]) -> Row | None:
    found = [watched for run in runs if (watched := run.watched) is not None]
    if not found:
        return None
    times = [estimate(one["fct_us"]["all"][name] for one in found) for name in FCT_COLUMNS]
    slow = estimate(one["slowdown"]["all"]["mean"] for one in found)
    scale = time_scale([time.mean for time in times if time])
    n, deadlines, missed = (sum(one[key] for one in found) for key in ("n", "deadlines", "missed"))
    cells = [f"{scale.show(time)} {scale.unit}" if time else NOTHING for time in times]
    cells = [count(n), *cells, PLAIN.show(slow), count(deadlines), count(missed)]
    return Row(variant, tuple(cells))


def _retransmissions(runs: Sequence[Run]) -> str:
    found: Estimate | None = estimate(run.summary["retransmissions"] for run in runs)
    return NOTHING if found is None else count(round(found.mean))


def differences(variants: Sequence[Variant], besides: tuple[str, ...] = ()) -> tuple[list[str], list[Row]]:
    """Return the keys in which the variants' scenarios differ, and each variant's values, over all
    loads and seeds. Keys that begin as one of `besides` are left out."""
    keys = differing([run for variant in variants for run in variant.runs])
    keys = [key for key in keys if not key.startswith(besides)]
    if all(variant.label == variant.scheme for variant in variants):
        keys = [key for key in keys if key != "scheme.name"]  # the label has it
    return keys, [Row(variant, tuple(_value(variant, key) for key in keys)) for variant in variants]


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
    found = []
    for field in (field for field in POLICY_FIELDS if field.name != "scheme"):
        values = tuple(_by_load(variant, partial(_in_policy, field.name)) for variant in variants)
        if any(value != NOTHING for value in values):
            found.append(Parameter(field.name, field.title, values, len(set(values)) > 1))
    return found


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
