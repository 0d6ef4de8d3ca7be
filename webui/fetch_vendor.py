# SPDX-License-Identifier: Apache-2.0
"""Bring the dashboard's JavaScript libraries, pinned in package-lock.json, into static/vendor/.

Needs npm and nothing else of ours: `python3 webui/fetch_vendor.py`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = {
    "node_modules/uplot/dist/uPlot.esm.js": "uplot/uPlot.esm.js",
    "node_modules/uplot/dist/uPlot.min.css": "uplot/uPlot.min.css",
    "node_modules/uplot/LICENSE": "uplot/LICENSE",
}


def main() -> int:
    npm = shutil.which("npm")
    if npm is None:
        print("npm is missing; on Debian: apt-get install npm", file=sys.stderr)
        return 1
    done = subprocess.run([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=HERE, check=False)
    if done.returncode != 0:
        return done.returncode
    for source, target in FILES.items():
        path = HERE / "static" / "vendor" / target
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(HERE / source, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
