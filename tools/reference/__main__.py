# SPDX-License-Identifier: Apache-2.0
"""`python -m tools.reference` writes the reference pages; with --check it says which ones are stale."""

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
        names = stale()
        for name in names:
            print(f"{name} is stale: run `make gen` and commit the page", file=sys.stderr)
        return 1 if names else 0
    for name, text_of in PAGES.items():
        path = ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of())
    return 0


def stale() -> list[str]:
    """The pages that are not as the code has them."""
    paths = [(name, ROOT / name, text_of) for name, text_of in PAGES.items()]
    return [name for name, path, text_of in paths if not path.exists() or path.read_text() != text_of()]


if __name__ == "__main__":
    sys.exit(main())
