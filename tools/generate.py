# SPDX-License-Identifier: Apache-2.0
"""Write what is made from the code: C headers, the types of the page's documents, and the reference pages.

With --check it changes nothing and names the stale files. The page's types need `make frontend`.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from sluice.policy import controls, tags

ROOT = Path(__file__).resolve().parents[1]
_TYPE_GENERATOR = ROOT / "webui/node_modules/.bin/openapi-typescript"
_TYPE_OPTIONS = ("--root-types", "--root-types-no-schema-prefix", "--default-non-nullable=false")
_TYPE_HEAD = """\
// SPDX-License-Identifier: Apache-2.0
// Generated from the models in webui/ by `make gen`: change those, not this file.
"""

Texts = Mapping[str, Callable[[], str]]
"""Path of a file → its text."""


def headers() -> Texts:
    return {"dataplane/laws/tags.gen.h": tags.c_header, "dataplane/laws/controls.gen.h": controls.c_header}


def types() -> Texts:
    return {"webui/static/js/documents.gen.d.ts": _document_types}


def _document_types() -> str:
    """Return the TypeScript types of all documents. Those of the endpoints are left out, because the page uses none."""
    from sluice.webui.app import openapi_document

    document = json.dumps({**openapi_document(), "paths": {}})
    argv = [str(_TYPE_GENERATOR), *_TYPE_OPTIONS]
    return (
        _TYPE_HEAD + subprocess.run(argv, input=document, capture_output=True, text=True, check=True).stdout
    )


def pages() -> Texts:
    """The pages of docs/reference, and other pages and examples with generated sections."""
    from tools.reference import api_page, operation_pages, policy_pages, run_pages, sections

    return {
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
        "experiments/README.md": sections.experiments_page,
        **operation_pages.examples(),
    }


KINDS = {"headers": headers, "types": types, "pages": pages}


def main(argv: Sequence[str] | None = None) -> int:
    """Return the exit status: 1 if --check finds a stale file."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=[*KINDS], help="some of it")
    parser.add_argument("--check", action="store_true", help="change nothing, name the stale files")
    options = parser.parse_args(argv)
    stale = False
    for kind in options.only:
        for name, text_of in KINDS[kind]().items():
            path, text = ROOT / name, text_of()
            if path.exists() and path.read_text() == text:
                continue
            stale = True
            if options.check:
                print(f"{name} is stale: run `make gen`", file=sys.stderr)
            else:
                path.write_text(text)
    return int(options.check and stale)


if __name__ == "__main__":
    sys.exit(main())
