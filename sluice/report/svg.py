# SPDX-License-Identifier: Apache-2.0
"""A matplotlib figure as SVG inside a page: the page's colours, light or dark, no addresses, ids of its own."""

from __future__ import annotations

import io
import re
from html import escape

from matplotlib.figure import Figure

INK, MUTED, FAINT = "#010203", "#010204", "#010205"
"""What plots draw in; the page says what these are. Colours that nobody would choose."""
ID_PREFIX = "@@"
"""Of every id: for the page to replace, figure by figure."""
_PAGE_COLOURS = {INK: "var(--ink)", MUTED: "var(--muted)", FAINT: "var(--faint)"}


def inline(figure: Figure, label: str) -> str:
    """An <svg> element. `label` is what a screen reader says."""
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
    """The page's name of a plot's colour."""
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
    """Ids that nothing refers to go; the others can be made unique in a page that holds many figures."""
    used = {one or other for one, other in re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', text)}
    text = re.sub(r' id="([^"]+)"', lambda m: f' id="{ID_PREFIX}{m[1]}"' if m[1] in used else "", text)
    text = text.replace('href="#', f'href="#{ID_PREFIX}')
    return text.replace("url(#", f"url(#{ID_PREFIX}")
