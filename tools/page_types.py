# SPDX-License-Identifier: Apache-2.0
"""Write the types of the page's documents, from the OpenAPI document, or with --check say if they are stale."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from sluice.webui.app import openapi_document

ROOT = Path(__file__).resolve().parents[1]
TYPES = ROOT / "webui/static/js/documents.gen.d.ts"
GENERATOR = ROOT / "webui/node_modules/.bin/openapi-typescript"
_OPTIONS = ("--root-types", "--root-types-no-schema-prefix", "--default-non-nullable=false")
_HEAD = """\
// SPDX-License-Identifier: Apache-2.0
// Generated from the models in webui/ by `make gen`: change those, not this file.
"""


def types() -> str:
    """Return the TypeScript types of all documents. Those of the endpoints are left out, because the page uses none."""
    document = {**openapi_document(), "paths": {}}
    generator = subprocess.run(
        [GENERATOR, *_OPTIONS], input=json.dumps(document), capture_output=True, text=True, check=True
    )
    return _HEAD + generator.stdout


def main() -> int:
    """Return the exit status: 1 if --check finds stale types."""
    parser = argparse.ArgumentParser(prog="python -m tools.page_types", description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, say if the types are stale")
    is_check = parser.parse_args().check
    is_stale = not TYPES.exists() or TYPES.read_text() != types()
    if is_check and is_stale:
        print(f"{TYPES.relative_to(ROOT)} is stale: run `make gen`", file=sys.stderr)
    elif is_stale:
        TYPES.write_text(types())
    return 1 if is_check and is_stale else 0


if __name__ == "__main__":
    sys.exit(main())
