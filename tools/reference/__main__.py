# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.reference` writes the reference pages; with --check it says which ones are stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tools.reference import api_page, operation_pages, policy_pages, run_pages, sections

ROOT = Path(__file__).parents[2]

PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/scenario.md": run_pages.scenario_page,
    "docs/reference/policy.md": policy_pages.policy_page,
    "docs/reference/schemes.md": policy_pages.schemes_page,
    "docs/reference/results.md": run_pages.results_page,
    "docs/reference/metrics.md": operation_pages.metrics_page,
    "docs/reference/commands.md": operation_pages.commands_page,
    "docs/reference/settings.md": operation_pages.settings_page,
    "docs/reference/api.md": api_page.text,
    "docs/reference/socket-options.md": operation_pages.socket_options_page,
    "docs/reference/tags-and-pipeline.md": policy_pages.tags_page,
    "docs/explanation/architecture.md": sections.architecture_page,
    "docs/deploying/ten-thousand-switches.md": sections.scale_page,
    **operation_pages.examples(),
}
"""Page → its text. The last pages have generated sections only."""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the pages, or compare them. The exit code is 1 when a compared page is stale."""
    parser = argparse.ArgumentParser(prog="python -m tools.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, name the stale pages")
    if parser.parse_args(argv).check:
        return _check()
    for name, made in PAGES.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(made())
    return 0


def stale() -> list[str]:
    """The pages that are not as the code has them."""
    return [name for name, made in PAGES.items() if _current(name) != made()]


def _current(name: str) -> str:
    path = ROOT / name
    return path.read_text() if path.exists() else ""


def _check() -> int:
    found = stale()
    for name in found:
        print(f"{name} is stale: run `make gen` and commit the page", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
