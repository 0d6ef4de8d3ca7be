# SPDX-License-Identifier: Apache-2.0
"""The report of `sluice compare` in a real browser."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from matplotlib import pyplot as plt

from sluice.report.page import write_report
from tests.kit.bundles import sweep
from tests.kit.known import known
from tests.web.conftest import Browser, Page

pytestmark = pytest.mark.web

SIZES = ((1440, 900), (390, 844))
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    path = folder / "report.html"
    write_report([sweep(folder / "sweep", ["dctcp", "pias"], [0.5, 0.8], [1, 2])], path)
    return path


@pytest.fixture(scope="module")
def opened(browser: Browser, report: Path) -> Iterator[Page]:
    """One page for all tests. An error on it, or a request to another file or machine, fails the last test."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(report.as_uri())
    yield page
    context.close()
    assert [url for url in requests if not url.startswith(("data:", "blob:"))] == [report.as_uri()]
    assert errors == []


def test_report__the_pointer_shows_the_values_of_every_scheme(opened: Page) -> None:
    picture = opened.locator("details[open] figure[data-hover] svg").first
    picture.scroll_into_view_if_needed()
    tip = opened.locator(".tip:visible")
    assert tip.count() == 0
    box = known(picture.bounding_box())
    opened.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 0.5 * box["height"])
    where, *values = tip.inner_text().splitlines()
    assert where.endswith(("µs", "ms", "s"))
    assert [value.partition(": ")[0] for value in values] == ["dctcp", "pias"]
    faster, slower = (float(value.partition(": ")[2]) for value in values)
    assert 0 < slower < faster <= 1  # pias is twice as slow, so a smaller share has ended
    opened.mouse.move(5, 5)
    assert tip.count() == 0


def test_report__a_picture_and_its_data_can_be_saved(opened: Page, tmp_path: Path) -> None:
    figure = opened.locator("details[open] figure").first
    saved = {}
    for word in ("PNG", "CSV"):
        with opened.expect_download() as download:
            figure.get_by_text(word, exact=True).click()
        saved[download.value.suggested_filename] = tmp_path / word
        download.value.save_as(tmp_path / word)
    assert list(saved) == ["small-flows.png", "small-flows.csv"]
    assert saved["small-flows.csv"].read_text().startswith("series,fct_us,share\ndctcp,")
    pixels = plt.imread(saved["small-flows.png"])
    assert pixels.shape[1] > 900
    assert len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 20  # drawn, not one colour


def test_report__fits_and_is_legible(opened: Page) -> None:
    for closed in opened.locator("details:not([open]) > summary").all():
        closed.click()
    for (width, height), scheme in itertools.product(SIZES, THEMES):
        opened.set_viewport_size({"width": width, "height": height})
        opened.emulate_media(color_scheme=scheme)
        assert opened.evaluate("document.documentElement.scrollWidth") <= width
        drawn = opened.evaluate(
            """() => [...document.querySelectorAll('figure svg text')].map(text => ({
                pixels: text.getBoundingClientRect().height, colour: getComputedStyle(text).fill,
                page: getComputedStyle(document.body).backgroundColor,
                outside: text.getBoundingClientRect().left
                    < text.ownerSVGElement.getBoundingClientRect().left - 1}))"""
        )
        assert len(drawn) > 100
        assert min(text["pixels"] for text in drawn) > 9
        assert not any(text["outside"] for text in drawn)
        assert all(contrast(text["colour"], text["page"]) > 4.5 for text in drawn)


def contrast(one: str, two: str) -> float:
    """Return the contrast of two colours `rgb(r, g, b)`, as WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
