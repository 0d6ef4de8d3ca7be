# SPDX-License-Identifier: Apache-2.0
"""A matplotlib figure as SVG inside a page, with the page's colours (light or dark), no addresses,
and its own ids."""

from __future__ import annotations

import io
import re
from html import escape

from matplotlib.figure import Figure

INK, MUTED, FAINT = "#010203", "#010204", "#010205"
"""The ink that plots use; the page defines its real colours. No one would choose these values for a plot."""
ID_PREFIX = "@@"
"""Prefix of every id. The page replaces it with a different one for each figure."""
_PAGE_COLOURS = {INK: "var(--ink)", MUTED: "var(--muted)", FAINT: "var(--faint)"}


def inline(figure: Figure, label: str) -> str:
    """Return an <svg> element. `label` is the text for screen readers."""
    file = io.StringIO()
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>', _opening(label), text, count=1)
    text = text.replace("xlink:href=", "href=")
    text = _with_colours(text)
    text = re.sub(r"font: (?:\w+ )?([\d.]+)px [^;\"]*", r"font-size: \1px", text)
    text = re.sub(r"font-family: [^;\"]*;?", "", text)
    return _with_own_ids(text)


def colour_variable(colour: str) -> str:
    """Return the page's CSS variable for a plot's colour."""
    return f"--c{colour.removeprefix('#')}"


def _opening(label: str) -> str:
    return rf'<svg viewBox="\1" role="img" aria-label="{escape(label)}">'


def _with_colours(text: str) -> str:
    for colour, page_colour in _PAGE_COLOURS.items():
        text = text.replace(colour, page_colour)
    return re.sub(
        r"(fill|stroke): (#[0-9a-f]{6})", lambda m: f"{m[1]}: var({colour_variable(m[2])}, {m[2]})", text
    )


def _with_own_ids(text: str) -> str:
    """Remove the ids that nothing refers to. The page can make the others unique if it holds
    several figures."""
    used = {one or other for one, other in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)}
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{ID_PREFIX}{m[1]}"' if m[1] in used else "", text)
    text = text.replace('href="#', f'href="#{ID_PREFIX}')
    return text.replace("url(#", f"url(#{ID_PREFIX}")
