# SPDX-License-Identifier: Apache-2.0
"""The documentation site works without the network: it loads nothing from another host."""

import json
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.kit.pages import DOCS, ROOT

pytestmark = pytest.mark.slow

LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "object": "data"}
"""Element → the attribute whose address a browser loads."""
FOREIGN = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)


class Loaded(HTMLParser):
    """Collects the addresses that a browser loads with a page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(LOADS.get(tag, ""))
        if address is not None:
            self.addresses.append(address)


def loaded_by(html: str) -> list[str]:
    parser = Loaded()
    parser.feed(html)
    return parser.addresses


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    argv = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    env = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_and_styles_load_nothing_from_another_host(site: Path) -> None:
    pages = {page: loaded_by(page.read_text()) for page in site.rglob("*.html")}
    assert all(any(address.endswith(".js") for address in addresses) for addresses in pages.values())
    foreign = {
        str(page.relative_to(site)): address
        for page, addresses in pages.items()
        for address in addresses
        if FOREIGN.match(address)
    }
    assert foreign == {}
    styles = [style.read_text() for style in site.rglob("*.css")]
    assert styles
    addresses = [
        address
        for style in styles
        for address in re.findall(r"(?:url\([\"']?|@import [\"'])([^)\"']*)", style)
    ]
    assert [address for address in addresses if FOREIGN.match(address)] == []


def cells(name: str) -> list[dict[str, Any]]:
    """Return the cells of a notebook, which is a JSON document."""
    document = json.loads((DOCS / "notebooks" / f"{name}.ipynb").read_text())
    return list(document["cells"])


def run_cells(name: str, folder: Path, then: str = "") -> str:
    """Run the code of a notebook, and then some more. Returns what it prints."""
    code = ["".join(cell["source"]) for cell in cells(name) if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-W", "error::FutureWarning", "-c", "\n".join([*code, then])],
        cwd=folder,
        env={**os.environ, "MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def sweep() -> pa.Table:
    """A sweep in which scheme b is a tenth faster than scheme a, and one point is not valid."""
    rows = [
        (scheme, load, seed, factor * (100 + seed), factor * 900 * load, True)
        for scheme, factor in (("a", 10.0), ("b", 9.0))
        for load in (0.5, 0.8)
        for seed in (1, 2, 3)
    ]
    rows.append(("a", 0.9, 1, 1e9, 1e9, False))
    columns = ["scheme", "load", "seed", "fct_us_small_mean", "fct_us_small_p99", "valid"]
    return pa.Table.from_pylist([dict(zip(columns, row, strict=True)) for row in rows])


def test_every_cell_runs_and_the_figure_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "sweep"
    folder.mkdir(parents=True)
    pq.write_table(sweep(), folder / "sweep.parquet")
    assert not any(cell.get("outputs") for cell in cells("sweep-to-figure"))
    shown = "print(change.groupby('load').agg(['mean', half_width]).round(1).to_json())"
    printed = run_cells("sweep-to-figure", tmp_path, shown)
    assert '"0.5":-10.0,"0.8":-10.0' in printed, "the invalid point at load 0.9 is left out"
    assert (tmp_path / "sweep-to-figure.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / "sweep-to-figure.png").stat().st_size > 10_000


def test_the_notebook_about_the_simulator_prints_what_it_shows(tmp_path: Path) -> None:
    """It is kept with its outputs, and a simulation prints the same each time."""
    outputs = [output for cell in cells("closed-loop") for output in cell.get("outputs", [])]
    assert [output["output_type"] for output in outputs] == ["stream", "display_data"]
    assert run_cells("closed-loop", tmp_path) == "".join(outputs[0]["text"])
    assert (tmp_path / "closed-loop.pdf").read_bytes().startswith(b"%PDF")
