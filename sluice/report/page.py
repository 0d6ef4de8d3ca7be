# SPDX-License-Identifier: Apache-2.0
"""The report's page: figures, tables and notices in one HTML file that needs no other file.

It has warnings that a reader needs before trusting a comparison, and the commands that repeat it and its runs.
"""

import hashlib
import itertools
import re
import shlex
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from sluice.policy.errors import SluiceError
from sluice.policy.figures.scoreboard import CONFIDENCE_PERCENT
from sluice.report import charts, tables
from sluice.report import runs as bundles
from sluice.report.charts import DASHES, MARKERS, Panel, colour_variable, file_stem, marker_of
from sluice.report.runs import Run, Variant, classes_present, find_runs, variants
from sluice.report.tables import count, loads_of
from sluice.runs.bundle import COMMAND

# ── Notices ──────────────────────────────────────────────────────────────────────────────────────────


EXPECTED_TO_DIFFER = ("scheme.", "transport.")
"""Keys that may differ: a scheme has its own settings, and its hosts use the timers that its authors gave."""


def invalid_runs(runs: Sequence[Run]) -> list[tuple[str, int]]:
    """Return why runs are not valid, with the number of runs for each reason, the most frequent first."""
    return Counter(reason for run in runs for reason in run.summary["valid"]["reasons"]).most_common()


def notices(variants: Sequence[Variant]) -> list[str]:
    """Return the warnings as sentences; none if all runs finished and differ only by scheme, load and seed."""
    runs = [run for variant in variants for run in variant.runs]
    sentences = []
    keys = [key for key in bundles.differing(runs) if not key.startswith(EXPECTED_TO_DIFFER)]
    if keys:
        sentences.append(
            f"These runs are of different scenarios: {', '.join(keys)} differ. If one line is better, the scheme need "
            "not be the reason."
        )
    for load in loads_of(variants):
        seeds = {frozenset(run.seed for run in variant.at(load)) for variant in variants}
        if len(seeds) > 1:
            where = "" if load is None else f" at load {load:g}"
            sentences.append(
                f"Not all schemes have the same seeds{where}: their means cover different traffic. The table of "
                "completeness lists them."
            )
    repeated = sorted({folder for variant in variants for folder in bundles.repeats(variant)})
    if repeated:
        sentences.append(
            f"These runs have the flows and figures of another seed, and count twice: {', '.join(repeated)}. So "
            "deviations and intervals are too small. Leave them out, or run them again with this version."
        )
    fabrics = sorted({run.on for run in runs})
    if len(fabrics) > 1:
        sentences.append(f"This report compares runs on the {' and the '.join(fabrics)}.")
    unfinished = {v.label: sum(run.summary["unfinished"] for run in v.runs) for v in variants}
    labels = [f"{label} {count(number)}" for label, number in unfinished.items() if number]
    if labels:
        sentences.append(
            f"Flows that did not finish: {', '.join(labels)}. Completion times are those of finished flows only. "
            "Unfinished flows were slow, so a scheme that left many of them looks better than it is."
        )
    return sentences


# ── How to repeat ────────────────────────────────────────────────────────────────────────────────────


ENTRY_POINT = "entry point "
"""What the source of a plugin begins with that is installed, and so needs no option."""
NEW = "NEW"
"""A folder that the reader chooses."""


def repeat_run(run: Run) -> str:
    """Return the command that repeats a run from the scenario in its bundle."""
    words = run.meta.get(COMMAND) or ["sluice", "run", "--on", run.on]
    files = [source for source in run.meta.get("plugins", {}) if not source.startswith(ENTRY_POINT)]
    plugins = [word for source in files for word in ("--plugin", source)]
    command, *options = words
    return shlex.join(
        [command, options[0], str(run.folder / "scenario.json"), *options[1:], *plugins, "--out", NEW]
    )


def repeat_runs(variants: Sequence[Variant]) -> list[tuple[str, int]]:
    """Return the command for the first run of each variant, and how many more runs the variant has.

    Variants of one bundle share a command.
    """
    commands: dict[str, int] = {}
    for variant in variants:
        commands.setdefault(repeat_run(variant.runs[0]), len(variant.runs) - 1)
    return list(commands.items())


# ── The page ─────────────────────────────────────────────────────────────────────────────────────────


HERE = Path(__file__).parent
SCHEME_TABLE = ("scheme.",)
"""Keys of a scenario that the table of policies has already."""
_MOVES = (
    "Demotion thresholds since the first one, of the run with the lowest seed. Line: the median port. "
    f"Band: {charts.LOW_PERCENT} to {charts.HIGH_PERCENT} % of the ports."
)
_QUEUES = (
    f"Bytes that wait at the {charts.MOST_PORTS} ports that sent the most, of the run with the lowest seed. Of many "
    "samples, each point is the greatest since the point before."
)


@dataclass(frozen=True)
class Block:
    """Panels under one heading, with one caption."""

    heading: str
    panels: Sequence[Panel]
    caption: str
    legend: bool = True


@dataclass(frozen=True)
class LoadPart:
    """The part of the page about one load."""

    title: str
    open: bool
    board: tables.Board
    sections: Sequence[tables.Section]
    completeness: Sequence[tables.Row]
    applications: Sequence[tables.Row]
    blocks: Sequence[Block]


def write_report(
    folders: Sequence[Path], out: Path, *, baseline: str | None = None, figures: Path | None = None
) -> list[str]:
    """Compare the bundles in these folders on one HTML page. Returns the warnings for its reader (`notices`).

    `baseline` is the label of the scheme, or the number of the policy's version, that ratios refer to; None means the
    first one. `figures` is a folder for every picture as PNG and PDF, and its data as CSV.
    """
    runs = find_runs(folders)
    out.parent.mkdir(parents=True, exist_ok=True)
    against = [] if baseline is None else ["--baseline", baseline]
    command = shlex.join(["sluice", "compare", *map(str, folders), *against, "--out", str(out)])
    context = _context(runs, baseline) | {"command": command}
    out.write_text(_render(context))
    if figures is not None:
        _save(context["over_loads"], context["parts"], figures)
    invalid = context["invalid_runs"]
    return [*([f"{invalid} of {len(runs)} runs are not valid"] if invalid else []), *context["notices"]]


def _save(over_loads: Sequence[Block], parts: Sequence[LoadPart], folder: Path) -> None:
    """Write every picture into files. A name begins with the load, if there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    groups = [("", over_loads), *((f"{file_stem(part.title)}-", part.blocks) for part in parts)]
    for prefix, blocks in groups:
        for block in blocks:
            for panel in block.panels:
                panel.save(folder, f"{prefix}{file_stem(block.heading)}-{file_stem(panel.title)}")


def _render(context: Mapping[str, Any]) -> str:
    """Return the page. It may run its own script, and nothing else: it can load nothing."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template("page.html.j2")
    script = "/*<![CDATA[*/\n" + (HERE / "page.js").read_text() + "/*]]>*/"
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {"css": (HERE / "page.css").read_text(), "script": script, "script_sha256": digest}
    html = template.render(**context, **parts).lstrip()
    figures = itertools.count(1)
    return re.sub(  # an id occurs once in the page
        r"<figure\b.*?</figure>",
        lambda figure: figure[0].replace(charts.ID_PREFIX, f"figure{next(figures)}-"),
        html,
        flags=re.DOTALL,
    )


def _baseline(compared: Sequence[Variant], label: str | None) -> Variant:
    for variant in compared:
        if label in (None, variant.label, variant.scheme, str(variant.runs[0].version)):
            return variant
    labels = ", ".join(variant.label for variant in compared)
    raise SluiceError(f"--baseline {label}: no run has this scheme or version; the schemes are {labels}")


def _context(runs: Sequence[Run], baseline: str | None) -> dict[str, Any]:
    """Return what the template needs, but the command of the report."""
    compared = variants(runs)
    base = _baseline(compared, baseline)
    loads = loads_of(compared)
    names = list(dict.fromkeys(str(run.document["name"]) for run in runs))
    dashes = [DASHES[variant.style % len(DASHES)] or () for variant in compared]
    dash_arrays = [" ".join(f"{step:g}" for step in steps) for steps in dashes]
    parameters = bundles.parameters(compared)
    besides = SCHEME_TABLE if parameters else ()
    keys, different = bundles.differences(compared, besides)
    return {
        "title": names[0] if len(names) == 1 else f"Comparison of {_plural(len(runs), 'run')}",
        "subtitle": _subtitle(runs, compared, loads),
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "invalid": invalid_runs(runs),
        "invalid_runs": sum(not run.summary["valid"]["ok"] for run in runs),
        "runs": len(runs),
        "notices": notices(compared),
        "legend": [
            (variant, dashes, MARKERS[marker_of(variant)])
            for variant, dashes in zip(compared, dash_arrays, strict=True)
        ],
        "baseline": base,
        "several": len(compared) > 1,
        "confidence": CONFIDENCE_PERCENT,
        "colours": {
            colour_variable(colour): (colour, _lighter(colour))
            for colour in (*(variant.colour for variant in compared), *charts.PORT_COLOURS)
        },
        "common": bundles.common(compared, besides),
        "difference_keys": keys,
        "differences": different,
        "parameters": parameters,
        "versions": _versions(runs),
        "repeats": repeat_runs(compared),
        "over_loads": _over_loads(compared, base, loads),
        "parts": [_part(compared, base, load, load == loads[-1]) for load in loads],
    }


def _subtitle(runs: Sequence[Run], compared: Sequence[Variant], loads: Sequence[float | None]) -> str:
    seeds = sorted({run.seed for run in runs})
    parts = [
        _plural(len(runs), "run"),
        ", ".join(variant.label for variant in compared)
        if len(compared) <= 8
        else f"{len(compared)} variants",
        "load " + ", ".join(f"{load:g}" for load in loads if load is not None),
        ("seeds " if len(seeds) > 1 else "seed ") + ", ".join(map(str, seeds)),
        "on the " + " and the ".join(sorted({run.on for run in runs})),
    ]
    return " · ".join(part for part in parts if part != "load ")


def _versions(runs: Sequence[Run]) -> list[str]:
    """Return the versions of the code that the runs were made with."""
    versions = []
    for run in runs:
        git = run.meta.get("git") or {}
        commit = (git.get("commit") or "unknown commit")[:10]
        versions.append(
            f"sluice {run.meta.get('sluice', '?')} ({commit}{', with changes' if git.get('dirty') else ''})"
        )
    return list(dict.fromkeys(versions))


def _over_loads(compared: Sequence[Variant], base: Variant, loads: Sequence[float | None]) -> list[Block]:
    """Return the blocks that need several loads."""
    if sum(load is not None for load in loads) < 2:
        return []
    runs = [run for variant in compared for run in variant.runs]
    counted = _counted(runs)
    blocks = []
    if len(compared) > 1:
        caption = (
            f"FCT divided by that of {base.label} at the same load (below 1: faster), {counted}. "
            "Bars: standard deviation over the seeds."
        )
        panels = charts.against_load(compared, base, classes_present(runs))
        blocks.append(Block("Completion time against load", panels, caption))
    if deadlines := _deadlines(runs):
        blocks.append(Block("Deadlines against load", charts.misses_against_load(compared), deadlines))
    return blocks


def _part(compared: Sequence[Variant], base: Variant, load: float | None, unfolded: bool) -> LoadPart:
    present = [variant for variant in compared if variant.at(load)]
    runs = [run for variant in present for run in variant.at(load)]
    return LoadPart(
        "All figures" if load is None else f"Load {load:g}",
        unfolded,
        tables.board(present, base, load, classes_present(runs)),
        tables.fct_sections(present, base, load, classes_present(runs)),
        tables.completeness(present, load),
        tables.applications(present, load),
        _blocks(present, load, runs),
    )


def _blocks(present: Sequence[Variant], load: float | None, runs: Sequence[Run]) -> list[Block]:
    flows = {variant.label: tables.pooled(variant.at(load)) for variant in present}
    counted = _counted(runs)
    blocks = [
        Block(
            "Distribution of completion times",
            charts.distributions(flows, present, classes_present(runs)),
            f"Share of flows with at most this FCT, by size class, {counted}.",
        ),
        Block(
            "Slowdown by flow size",
            charts.slowdowns(flows, present),
            "FCT divided by the FCT of the same flow alone in the network, in bins of equally many flows, "
            f"at their mean size, {counted}. A mean needs {tables.MIN_FOR_MEAN} flows, a 95th percentile "
            f"{tables.MIN_FOR_PERCENTILE[95]}, a 99th {tables.MIN_FOR_PERCENTILE[99]}.",
        ),
    ]
    firsts = [(variant, min(variant.at(load), key=lambda run: run.seed)) for variant in present]
    blocks.append(Block("Thresholds over time", charts.threshold_panels(firsts), _MOVES, legend=False))
    blocks.append(Block("Queues over time", charts.queue_panels(firsts), _QUEUES, legend=False))
    if deadlines := _deadlines(runs):
        blocks.append(Block("Deadlines", charts.misses(present, load), deadlines, legend=False))
    return [block for block in blocks if block.panels]


def _deadlines(runs: Sequence[Run]) -> str:
    """Return the caption of pictures of missed deadlines; empty if no flow had one."""
    number = sum(run.summary["deadlines"]["n"] for run in runs)
    caption = f"Share of {count(number)} deadlines that were missed. An unfinished flow counts as missed."
    return caption if number else ""


def _counted(runs: Sequence[Run]) -> str:
    finished = sum(run.summary["fct_us"]["all"]["n"] for run in runs)
    seeds = len({run.seed for run in runs})
    return f"over {count(finished)} finished flows in {_plural(len(runs), 'run')}, {_plural(seeds, 'seed')}"


def _plural(number: int, what: str) -> str:
    return f"{count(number)} {what}{'' if number == 1 else 's'}"


def _lighter(colour: str) -> str:
    """Return the same hue for a dark page: a third of the way to white."""
    channels = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return "#" + "".join(f"{channel + (255 - channel) // 3:02x}" for channel in channels)
