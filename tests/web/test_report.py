# SPDX-License-Identifier: Apache-2.0
"""The report of `sluice compare` in a real browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from sluice.report.page import write_report
from tests.unit.sluice.bundles import sweep

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.web


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    path = folder / "report.html"
    write_report([sweep(folder / "sweep", ["dctcp", "pias"], [0.5, 0.8], [1, 2])], path)
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1440, 900), (390, 844)], ids=["desk", "phone"])
def test_report__fits_and_is_legible(
    browser: Browser, report: Path, size: tuple[int, int], scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    page = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(report.as_uri())
    for closed in page.locator("details:not([open]) > summary").all():
        closed.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    drawn = page.evaluate(
        """() => [...document.querySelectorAll('figure svg text')].map(text => ({
            pixels: text.getBoundingClientRect().height, colour: getComputedStyle(text).fill,
            page: getComputedStyle(document.body).backgroundColor,
            outside: text.getBoundingClientRect().left < text.ownerSVGElement.getBoundingClientRect().left - 1}))"""
    )
    assert len(drawn) > 100
    assert min(text["pixels"] for text in drawn) > 9
    assert not any(text["outside"] for text in drawn)
    assert all(contrast(text["colour"], text["page"]) > 4.5 for text in drawn)
    assert requests == [report.as_uri()]
    assert errors == []
    context.close()


def contrast(one: str, two: str) -> float:
    """Return the contrast of two colours `rgb(r, g, b)`, as WCAG 2 defines it."""
    light, dark = sorted((luminance(one), luminance(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    channels = [int(part) / 255 for part in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
