# SPDX-License-Identifier: Apache-2.0
"""Install the dashboard's JavaScript libraries into static/vendor/, in the versions of package-lock.json.

It needs npm, and no Python package: `python3 webui/fetch_vendor.py`. With `--tools` it also
installs biome and TypeScript, with which `make check` checks the dashboard's code, and axe-core,
with which the tests look for barriers in the page.
"""

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = {
    "node_modules/uplot/dist/uPlot.esm.js": "uplot/uPlot.esm.js",
    # TypeScript looks for the types of uPlot.esm.js under this name.
    "node_modules/uplot/dist/uPlot.d.ts": "uplot/uPlot.esm.d.ts",
    "node_modules/uplot/dist/uPlot.min.css": "uplot/uPlot.min.css",
    "node_modules/uplot/LICENSE": "uplot/LICENSE",
}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", action="store_true", help="also install the development tools")
    tools = parser.parse_args(argv).tools
    npm = shutil.which("npm")
    if npm is None:
        print("npm is missing; on Debian: apt-get install npm", file=sys.stderr)
        return 1
    command = [
        npm,
        "ci",
        "--no-audit",
        "--no-fund",
        "--no-update-notifier",
        "--ignore-scripts",
        *([] if tools else ["--omit=dev"]),
    ]
    done = subprocess.run(command, cwd=HERE, check=False)
    if done.returncode != 0:
        return done.returncode
    for source, target in FILES.items():
        path = HERE / "static" / "vendor" / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HERE / source, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
