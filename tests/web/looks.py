# SPDX-License-Identifier: Apache-2.0
"""Judges how a page looks: axe-core's findings, cut text, and controls that cannot be reached."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.web.conftest import Page

AXE = Path(__file__).parents[2] / "webui/node_modules/axe-core/axe.min.js"
RULES = {"target-size": {"enabled": True}}
"""Rules of axe-core that its default leaves out."""

_FINDINGS = """async ({scope, rules, only}) => {
    const options = only.length ? {runOnly: only} : {rules};
    const {violations} = await axe.run(scope || document, {resultTypes: ['violations'], ...options});
    return violations.flatMap(({id, help, nodes}) =>
        nodes.map(({target, failureSummary}) => `${id} (${help}): ${target.join(' ')}: ${failureSummary}`));
}"""

# A text may be cut off if a title has all of it. What only a screen reader gets has no size.
_CUT = """(scope) => [...document.querySelectorAll(`${scope || 'body'} *`)].filter((element) => {
    const {overflowX, display} = getComputedStyle(element);
    if (['visible', 'auto'].includes(overflowX) || display === 'inline' || !element.checkVisibility()) return false;
    if (element.closest('.visually-hidden, svg, .uplot')) return false;
    return element.scrollWidth > element.clientWidth + 1 && !element.closest('[title]:not([title=""])');
}).map(({tagName, id, className, textContent}) => `cut: ${tagName} ${id} ${className}: ${textContent.trim()}`)"""

# The skip link is out of sight until it has the focus, so each control gets it. Lists are at their ends before, so that
# the focus scrolls them back, up to their headers. A radio button of no size is drawn by
# its label. Links of the network cross each other, so the point in their middle may be another's.
_OUT_OF_REACH = """(scope) => {
    const missed = [], lists = document.querySelectorAll('.rows');
    for (const list of lists) list.scrollTop = list.scrollHeight;
    const controls = 'a[href], button, input, select, textarea, summary, [tabindex]';
    for (const control of document.querySelectorAll(controls.split(', ').map((c) => `${scope} ${c}`).join(', '))) {
        if (!control.checkVisibility() || control.closest('svg') || control.disabled || control.tabIndex < 0) continue;
        control.focus();
        const drawn = control.matches('input[type=radio]') ? control.closest('label') : control;
        const box = drawn.getBoundingClientRect();
        const [x, y] = [(Math.max(box.left, 0) + Math.min(box.right, innerWidth)) / 2,
                        (Math.max(box.top, 0) + Math.min(box.bottom, innerHeight)) / 2];
        const top = document.elementFromPoint(x, y);
        const seen = box.left >= -1 && box.right <= innerWidth + 1;
        if (!seen || !top || !drawn.contains(top))
            missed.push(`${control.tagName} ${control.id} ${drawn.textContent.trim().slice(0, 40)}: under `
                + `${top?.tagName} ${top?.id} ${top?.className}`);
    }
    document.activeElement.blur();
    scrollTo(0, 0);
    for (const list of lists) list.scrollTop = 0;
    return missed;
}"""


@cache
def axe_core() -> str:
    """Return the source of axe-core. Skips the test if it is missing."""
    if not AXE.exists():
        pytest.skip(f"{AXE} is missing; run: make frontend")
    return AXE.read_text()


_SCROLL = """(by) => { for (const element of document.querySelectorAll(".rows")) element.scrollTop += by }"""


def findings(page: Page, scope: str = "", *only: str) -> list[str]:
    """Return what axe-core finds wrong in the page, or in the element that the selector `scope` names.

    `only`: the rules to check; by default all. A page of many elements costs seconds. While axe-core looks, a live page
    changes, and it may see a row in two places. A row at the edge of its list is cut, and scrolling shows all of it. So
    what it finds counts if it finds it again after all lists have scrolled a little.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe_core())
    arguments = {"scope": scope, "rules": RULES, "only": only}
    found = _texts(page.evaluate(_FINDINGS, arguments))
    if not found:
        return []
    page.evaluate(_SCROLL, 10)
    again = _texts(page.evaluate(_FINDINGS, arguments))
    page.evaluate(_SCROLL, -10)
    return [text for text in found if text in again]


def defects(page: Page, scope: str = "") -> list[str]:
    """Return the cut texts, the controls out of reach, and whether the page is wider than its window."""
    found = _texts(page.evaluate(_CUT, scope)) + _texts(page.evaluate(_OUT_OF_REACH, scope))
    width, room = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    return [*found, *([f"the page is {width} px wide in a window of {room} px"] if width > room else [])]


def _texts(found: list[Any]) -> list[str]:
    return [str(text) for text in found]
