# SPDX-License-Identifier: Apache-2.0
"""The report's page."""

import hashlib
import json
import re
import shlex
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import numpy as np
import pytest

from sluice.cli import main
from sluice.commands import demo, run
from sluice.policy.errors import SluiceError
from sluice.policy.schema.desired import Policy
from sluice.report.page import notices, repeat_run, write_report
from sluice.report.runs import Run, Variant, classes_present, differences, find_runs, variants
from sluice.report.tables import completeness
from sluice.runs.bundle import QUEUES_SCHEMA, BundleWriter, policy_row, read_flows
from sluice.runs.files import scenario_from_file
from tests.kit.bundles import bundle, document, flow, random_flows, sweep
from tests.kit.known import known

pytestmark = pytest.mark.slow

AT_THE_END = ["Scenarios: what all share", "Repeat it"]


class Page:
    """A report, parsed as XML: the parser rejects a page that is not well-formed."""

    def __init__(self, path: Path) -> None:
        self.text = path.read_text()
        self.root = ElementTree.fromstring(self.text)

    def words(self, element: Element | None) -> str:
        return " ".join("".join(known(element).itertext()).split())

    def notices(self) -> str:
        found = [e for e in self.root.iter("section") if "notice" in e.get("class", "")]
        return " ".join(map(self.words, found))

    def part(self, title: str) -> Element:
        (found,) = [d for d in self.root.iter("details") if self.words(d.find("summary")) == title]
        return found

    def figures(self, title: str, section: str) -> dict[str, list[str]]:
        """Return the cells by label, of one size class's rows of the first table of a part."""
        for body in known(self.part(title).find("div/table")).findall("tbody"):
            heading, *rows = body.findall("tr")
            if self.words(heading).startswith(section):
                return {
                    self.words(row.find("th")): [self.words(cell) for cell in row.findall("td")]
                    for row in rows
                }
        raise AssertionError(f"no {section}")

    def unit(self, title: str, section: str) -> str:
        """Return the unit of a size class's rows."""
        (found,) = [
            self.words(heading.find("span"))
            for heading in self.part(title).iterfind("div/table/tbody/tr[@class='section']/th")
            if self.words(heading).startswith(section)
        ]
        return found

    def headings(self) -> list[str]:
        return [self.words(e) for e in self.root.iter("h3")]


def report(tmp_path: Path, *folders: Path, **options: Any) -> Page:
    write_report(folders, tmp_path / "out" / "report.html", **options)
    return Page(tmp_path / "out" / "report.html")


def number(text: str) -> float:
    return float(text.replace(" ", ""))


@pytest.fixture(scope="module")
def single(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    """A bundle, and the report of it."""
    folder = tmp_path_factory.mktemp("single")
    made = bundle(folder / "a", document(), random_flows(1))
    return made, report(folder, made)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The report of a sweep."""
    folder = tmp_path_factory.mktemp("swept")
    return report(folder, sweep(folder / "sweep", ["dctcp", "pias"], [0.5, 0.8], [1]))


def test_report__the_tables_figures_are_those_of_the_flows(single: tuple[Path, Page]) -> None:
    folder, page = single
    flows = read_flows(folder)
    for group in ("small", "medium", "large"):
        fct_ms = [row["fct_us"] / 1000 for row in flows if row["size_class"] == group]
        slowdown = [row["slowdown"] for row in flows if row["size_class"] == group]
        n, mean, p50, p95, p99, slow_mean, slow_p99 = page.figures("Load 0.5", f"{group} flows")["dctcp"]
        unit = {"FCT in µs": 1000, "FCT in ms": 1, "FCT in s": 0.001}[page.unit("Load 0.5", f"{group} flows")]
        expected = [np.mean(fct_ms), *np.percentile(fct_ms, [50, 95, 99])]
        assert number(n) == len(fct_ms)
        assert [number(x) for x in (mean, p50, p95, p99)] == pytest.approx(
            [x * unit for x in expected], rel=0.01
        )
        assert number(slow_mean) == pytest.approx(np.mean(slowdown), abs=0.006)
        assert number(slow_p99) == pytest.approx(np.percentile(slowdown, 99), abs=0.006)


def test_report__seeds_are_averaged_with_their_spread(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        bundle(tmp_path / f"run{seed}", document(seed=seed), [flow(1, 1000, 1000.0 * seed)])
    page = report(tmp_path, tmp_path)
    cells = page.figures("Load 0.5", "small flows")["dctcp"]
    assert cells[:2] == ["3", "2.00 ± 1.00"]
    assert "3 finished flows in 3 runs, 3 seeds" in page.text


def test_report__ratios_are_to_the_baseline_of_choice(swept: Page, tmp_path: Path) -> None:
    folder = sweep(tmp_path / "sweep", ["dctcp", "pias"], [0.5], [1])
    sweep(folder, ["dctcp"], [0.8], [1])
    assert swept.figures("Load 0.5", "small flows")["pias"][-1] == "2.00"
    chosen = report(tmp_path, folder, baseline="pias")
    assert chosen.figures("Load 0.5", "small flows")["dctcp"][-1] == "0.500"
    assert chosen.figures("Load 0.8", "small flows")["dctcp"][-1] == "–", "pias has no run at this load"
    with pytest.raises(
        SluiceError, match="--baseline ucp: no run has this scheme or version; the schemes are dctcp, pias"
    ):
        report(tmp_path, folder, baseline="ucp")


def test_report__a_sweep_is_shown_against_load(swept: Page) -> None:
    assert swept.headings()[:2] == ["Completion time against load", "Deadlines against load"]
    assert "Load 0.5" in swept.text
    assert swept.part("Load 0.8").get("open")
    assert not swept.notices()


def test_report__one_bundle_needs_no_legend_and_no_ratio(single: tuple[Path, Page]) -> None:
    _, page = single
    assert len(page.figures("Load 0.5", "all flows")["dctcp"]) == 7
    assert not [e for e in page.root.iter("ul") if e.get("class") == "legend"]
    assert page.headings() == [
        "Scoreboard",
        "Completion times",
        "Distribution of completion times",
        "Slowdown by flow size",
        "Completeness",
        *AT_THE_END,
    ]


def test_report__needs_nothing_from_elsewhere_and_may_run_only_its_own_script(swept: Page) -> None:
    assert not re.findall(r"https?:|//[a-z]|@import|<script[^>]|<link|src=", swept.text)
    assert swept.text.startswith("<!DOCTYPE html>")
    (script,) = re.findall(r"<script>(.*?)</script>", swept.text, re.DOTALL)
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}';" in swept.text


def test_report__ids_are_unique_and_references_resolve(swept: Page) -> None:
    ids = re.findall(r'\bid="([^"]+)"', swept.text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', swept.text)) <= {
        pair for name in ids for pair in ((name, ""), ("", name))
    }


def found(*folders: Path) -> list[Variant]:
    return variants(find_runs(folders))


def test_notices__unfinished_flows_are_counted_and_said(tmp_path: Path) -> None:
    flows = [*random_flows(1), flow(900, 5000, None, deadline_us=100.0)]
    compared = found(bundle(tmp_path / "a", document(), flows))
    (said,) = notices(compared)
    assert "did not finish: dctcp 1" in said
    (row,) = completeness(compared, 0.5)
    assert row.cells == ("1", "301", "1", "1", "1", "100 %", "0", "yes")


def test_report__nothing_finished(tmp_path: Path) -> None:
    page = report(tmp_path, bundle(tmp_path / "a", document(), [flow(1, 5000, None)]))
    assert page.figures("Load 0.5", "all flows")["dctcp"] == ["0", *["–"] * 6]
    assert page.headings() == ["Scoreboard", "Completion times", "Completeness", *AT_THE_END]


def test_report__a_class_that_one_scheme_lacks(tmp_path: Path) -> None:
    one = bundle(tmp_path / "a", document("dctcp"), random_flows(1))
    two = bundle(tmp_path / "b", document("pias"), [flow(1, 5000, 70.0)])
    assert report(tmp_path, one, two).figures("Load 0.5", "large flows")["pias"] == ["0", *["–"] * 7]
    assert classes_present(find_runs([two])) == ["small"]


def test_report__runs_that_are_not_valid_are_said_first(tmp_path: Path) -> None:
    folder = bundle(tmp_path / "a", document(), random_flows(1), reasons=["the CPU was saturated"])
    path = tmp_path / "report.html"
    assert write_report([folder], path)[0] == "1 of 1 runs are not valid"
    page = Page(path)
    assert "1 of 1 runs are not valid" in page.notices()
    assert "the CPU was saturated" in page.notices()
    assert page.text.index("the CPU was saturated") < page.text.index("<table")


def test_notices__different_scenarios(tmp_path: Path) -> None:
    one = bundle(tmp_path / "a", document("dctcp"), random_flows(1))
    two = bundle(tmp_path / "b", document("pias", fabric={"hosts": 8}), random_flows(2))
    (said,) = notices(found(one, two))
    assert "different scenarios: fabric.topology, fabric.hosts, fabric.host_rate differ" in said


def test_notices__seeds_with_the_same_flows(tmp_path: Path) -> None:
    same = [bundle(tmp_path / f"s{seed}", document(seed=seed), random_flows(1)) for seed in (1, 2)]
    other = bundle(tmp_path / "s3", document(seed=3), random_flows(3))
    (said,) = notices(found(*same, other))
    assert f"count twice: {same[1]}. So deviations" in said


def test_notices__different_seeds_and_fabrics(tmp_path: Path) -> None:
    one = bundle(tmp_path / "a", document(seed=1), random_flows(1))
    two = bundle(tmp_path / "b", document(seed=2), random_flows(2), on="testbed")
    compared = found(one, two)
    seeds, fabrics = notices(compared)
    assert "Not all schemes have the same seeds at load 0.5" in seeds
    assert "compares runs on the simulator and the testbed" in fabrics
    assert [variant.label for variant in compared] == ["dctcp (simulator)", "dctcp (testbed)"]


def test_variants__those_of_a_sweep_have_its_names(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "sweep", ["dctcp"], [0.5], [1])
    for name, queues in (("pias-two", 2), ("pias-four", 4)):
        scheme = {"name": "pias", "queues": queues}
        bundle(folder / name / "load-0.5/seed-01", document(scheme), random_flows(1))
    assert [variant.label for variant in found(folder)] == ["dctcp", "pias-four", "pias-two"]


def test_variants__settings_that_follow_the_load_make_one_line(tmp_path: Path) -> None:
    folder = sweep(tmp_path / "sweep", ["dctcp"], [0.5, 0.8], [1])
    for load, size in ((0.5, "10KB"), (0.8, "20KB")):
        scheme = {"name": "pias", "thresholds": [size]}
        bundle(folder / f"pias/load-{load}/seed-01", document(scheme, load=load), random_flows(1))
    compared = found(folder)
    assert [variant.label for variant in compared] == ["dctcp", "pias"]
    _, (_, (_, values)) = differences(compared)
    assert "at 0.5: 10KB; at 0.8: 20KB" in values


def test_report__text_from_scenarios_is_text_and_listed_flows_have_no_load(tmp_path: Path) -> None:
    listed = document(name="<b>a & b</b>")
    listed["workload"] = {"flow": [{"from": "h1", "to": "h2", "bytes": "5KB"}]}
    page = report(tmp_path, bundle(tmp_path / "a", listed, [flow(1, 5000, 70.0)]))
    assert page.words(page.root.find(".//h1")) == "<b>a & b</b>"
    assert page.figures("All figures", "small")["dctcp"][0] == "1"


def test_report__the_same_runs_give_the_same_page(single: tuple[Path, Page]) -> None:
    folder, first = single
    second = report(folder.parent, folder)
    assert len({re.sub(r"Sluice report, [^<]*", "", page.text) for page in (first, second)}) == 1


def test_report__has_every_policy_with_all_its_fields(tmp_path: Path) -> None:
    for scheme in ("dctcp", "pias"):
        folder = bundle(tmp_path / scheme, document(scheme), [flow(1, 5000, 70.0)])
        policy = Policy.from_document({"scheme": scheme, "mark_at": "30KB"})
        (folder / "policies.json").write_text(json.dumps([policy_row(1, policy)]))
    page = report(tmp_path, tmp_path)
    rows = {
        page.words(row.find("th")): ([page.words(cell) for cell in row.findall("td")], row.get("class"))
        for row in page.root.iter("tr")
        if row.find("td") is not None
    }
    assert rows["Mark at mark_at"] == (["30KB", "30KB"], None)
    assert rows["Queues queues"] == (["1", "8"], "differs")
    assert rows["Thresholds thresholds"][0][1].startswith("1327140B, 1940340B")
    assert "scheme.mark_at" not in page.text


def test_report__shows_how_thresholds_moved(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "a", scenario=document("mlfq-adaptive")) as writer:
        writer.add_records([flow(1, 5000, 70.0)])
        row = {"port": "s1:1", "policy_version": 1, "flows": 9}
        writer.add_thresholds([{**row, "at": float(i), "thresholds_bytes": [1000 * i]} for i in (1, 2)])
        writer.finish(meta={"on": "simulator"}, validity_reasons=[])
    page = report(tmp_path, tmp_path / "a")
    assert "Thresholds over time" in page.headings()
    assert "thresholds, mlfq-adaptive" in page.text


def test_report__shows_the_queues_of_ports_that_were_sampled(tmp_path: Path) -> None:
    with BundleWriter(tmp_path / "a", scenario=document()) as writer:
        writer.add_records([flow(1, 5000, 70.0)])
        counts = {name: np.asarray([3, 2]) for name in QUEUES_SCHEMA.names if name not in ("at_s", "port")}
        for at_s in (1.0, 2.0):
            writer.add_port_samples(at_s, {"port": np.asarray(["s1:1", "s1:2"]), **counts})
        writer.finish(meta={"on": "simulator"}, validity_reasons=[])
    page = report(tmp_path, tmp_path / "a")
    assert "Queues over time" in page.headings()
    figure = next(
        figure for figure in page.root.iter("figure") if "queues, dctcp" in "".join(figure.itertext())
    )
    assert {"s1:1", "s1:2"} <= set(" ".join(figure.itertext()).split()), "the legend is in the picture"
    colours = json.loads(figure.get("data-hover", ""))["colours"]
    assert set(colours) == {"s1:1", "s1:2"}
    assert all(f"{colour}:" in page.text for colour in colours.values()), "also for dark pages"


def test_report__every_picture_has_its_data(single: tuple[Path, Page]) -> None:
    _, page = single
    figures = list(page.root.iter("figure"))
    assert len(figures) == 6
    for figure in figures:
        link = known(figure.find("figcaption/a"))
        rows = unquote(link.get("href", "").partition(",")[2]).splitlines()
        assert rows[0].startswith("series,")
        assert len(rows) > 2
        assert set(json.loads(figure.get("data-hover", ""))["colours"]) == {"dctcp"}
    small = unquote(known(figures[0].find("figcaption/a")).get("href", ""))
    assert small.rstrip().rpartition(",")[2] == "1"  # a distribution ends at 1


def test_compare__says_the_notices_and_writes_every_picture_as_png_pdf_and_csv(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flows = [*(flow(i, 5000, 70.0 + i) for i in range(3)), flow(9, 5000, None)]
    folder = bundle(tmp_path / "a", document(), flows)
    argv = ["compare", str(folder), "--out", str(tmp_path / "r.html"), "--figures", str(tmp_path / "new/f")]
    assert main(argv) == 0
    output = capsys.readouterr()
    assert "did not finish: dctcp 1" in output.err
    assert str(tmp_path / "r.html") in output.out
    stem = "load-0.5-distribution-of-completion-times-small-flows"
    written = sorted(path.name for path in (tmp_path / "new/f").iterdir())
    assert written == [f"{stem}.{kind}" for kind in ("csv", "pdf", "png")]
    assert (tmp_path / f"new/f/{stem}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / f"new/f/{stem}.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / f"new/f/{stem}.csv").read_text().startswith("series,fct_us,share\ndctcp,")


@pytest.fixture
def made(tmp_path: Path) -> Run:
    (made,) = find_runs([bundle(tmp_path / "a b", document(), [flow(1, 1000, 100.0)])])
    return made


def test_repeat_run__the_command_takes_the_bundles_scenario(made: Run) -> None:
    words = shlex.split(repeat_run(made))
    given = run.run_parser().parse_args(words[2:])
    assert words[:2] == ["sluice", "run"]
    assert (given.scenario, given.on, str(given.out)) == (made.folder / "scenario.json", "simulator", "NEW")
    assert scenario_from_file(given.scenario)[1] == made.document


def test_repeat_run__a_demonstration_says_how_it_was_started(made: Run) -> None:
    words = ["sluice", "demo", "--on", "simulator", "--tour", "--tour-seconds", "6"]
    command = repeat_run(replace(made, meta={**made.meta, "command": words}))
    given = demo.parser().parse_args(shlex.split(command)[2:])
    assert (given.scenario, given.on, given.tour, given.tour_seconds) == (
        made.folder / "scenario.json",
        "simulator",
        True,
        6.0,
    )


def test_repeat_run__names_the_files_of_plugins_but_not_installed_ones(made: Run) -> None:
    plugins = {"/x/mine.py": "00", "entry point ring = mine:ring": "00"}
    words = shlex.split(repeat_run(replace(made, meta={**made.meta, "plugins": plugins})))
    assert words[words.index("--plugin") + 1] == "/x/mine.py"
    assert words.count("--plugin") == 1
