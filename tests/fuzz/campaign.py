# SPDX-License-Identifier: Apache-2.0
"""Search one target for inputs that break it, guided by coverage: `python -m tests.fuzz.campaign NAME SECONDS SEED`.

It begins with the corpus of the tree. An input that breaks the target is written to build/fuzz, and the command ends
with another status than 0. With `--keep`, it adds the smallest inputs that a campaign has found, each of which reached
something new, to the corpus of the tree, until that has KEPT.
"""

import argparse
import json
import sys
from pathlib import Path

import atheris

KEPT = 60
FOUND = Path("build/fuzz")
ROOMS = [
    "sluice.controller.openflow",
    "sluice.hostagent.wire",
    "sluice.policy",
    "sluice.runtime.toml",
    "sluice.runs.files",
    "sluice.topologies",
    "sluice.webui.api",
]

with atheris.instrument_imports(include=ROOMS):
    from tests.fuzz.targets import CORPUS, MOST_BYTES, TARGETS, corpus


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(TARGETS))
    parser.add_argument("seconds", type=int)
    parser.add_argument("seed", type=int)
    parser.add_argument("--keep", action="store_true", help="put what was found into the tree")
    given = parser.parse_args()
    found = FOUND / given.name
    if given.keep:
        _keep(given.name, found)
        return 0
    found.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(corpus(given.name)):
        (found / f"tree-{number}").write_bytes(data)
    _run(given.name, f"-max_total_time={given.seconds}", f"-seed={given.seed}", str(found))
    return 0


def _run(name: str, *options: str) -> None:
    limits = [
        f"-max_len={MOST_BYTES}",
        "-timeout=20",
        "-rss_limit_mb=2048",
        f"-artifact_prefix={FOUND}/{name}-",
    ]
    atheris.Setup(["fuzz", "-print_final_stats=1", "-verbosity=1", *limits, *options], TARGETS[name])
    atheris.Fuzz()


def _keep(name: str, found: Path) -> None:
    """Add the smallest inputs of a campaign to the corpus of the tree."""
    before = corpus(name)
    new = sorted({path.read_bytes() for path in found.iterdir()} - {*before}, key=len)
    texts = [data.decode("latin-1") for data in [*before, *new[: max(0, KEPT - len(before))]]]
    (CORPUS / f"{name}.json").write_text(json.dumps(texts, indent=0) + "\n")


if __name__ == "__main__":
    sys.exit(main())
