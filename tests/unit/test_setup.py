# SPDX-License-Identifier: Apache-2.0
"""What the set-up says and does, in a copy of its files, with commands that install nothing.

Also the rules for Prometheus, and the inputs that fuzzing has kept.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from sluice.store.totals import FLOW_SECONDS, FLOW_SLOWDOWN, Metric, bound_text
from tests.fuzz.targets import TARGETS, corpus

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = (
    "Makefile",
    "debian-packages.txt",
    "pyproject.toml",
    "tools/install-packages",
    "tools/setup",
    *(f"requirements/{name}.txt" for name in ("demo", "dev", "node")),
    *(f"webui/{name}" for name in ("package.json", "package-lock.json", "fetch-vendor")),
)

# Makes the environment, and answers every question whether something is there with no.
PYTHON = """#!/bin/bash
case "$*" in
  -m*venv*) mkdir -p .venv/bin && cp commands/pip commands/python .venv/bin/ && cp commands/sluice .venv/bin/ ;;
  *) exit 1 ;;
esac
"""
COMMANDS = {
    "python3": PYTHON,
    "pip": "#!/bin/bash\necho downloads; [ ! -e broken ]\n",
    "python": "#!/bin/bash\ntrue\n",
    "sluice": "#!/bin/bash\necho demonstration\n",
    "dpkg-query": "#!/bin/bash\ntrue\n",
    "apt-get": "#!/bin/bash\necho apt $*\n",
    "sudo": '#!/bin/bash\n[ "$1" = -v ] || "$@"\n',
    "npm": "#!/bin/bash\nmkdir -p node_modules/uplot/dist && cd node_modules/uplot &&"
    " touch LICENSE dist/uPlot.esm.js dist/uPlot.d.ts dist/uPlot.min.css\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "commands").mkdir()
    for name, text in COMMANDS.items():
        (tmp_path / "commands" / name).write_text(text)
        (tmp_path / "commands" / name).chmod(0o755)
    return tmp_path


def call(tree: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    commands = tree / "commands"
    variables = {"PATH": f"{commands}:{os.environ['PATH']}", "PYTHON3": str(commands / "python3")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        argv, cwd=tree, env=kept | variables, capture_output=True, text=True, timeout=300, check=False
    )


def test_each_step_is_done_once_and_one_that_fails_shows_its_output_and_is_tried_again(tree: Path) -> None:
    (tree / "broken").touch()
    failed = call(tree, "tools/setup", "python-demo", "page")
    assert failed.returncode == 1
    assert failed.stderr.startswith("downloads\n")
    assert "failed at step 1, Python packages" in failed.stderr
    assert "[2/2]" not in failed.stdout
    (tree / "broken").unlink()
    assert "[1/2] Python packages" in call(tree, "tools/setup", "python-demo", "page").stdout
    again = call(tree, "tools/setup", "python-demo", "page")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_make_shows_steps_and_no_shell_lines(tree: Path) -> None:
    done = call(tree, "make", "demo")
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[-1] == "demonstration"
    assert said[0].startswith("Setting up, once: about ")
    assert all(line.startswith(("Set", "[", "demonstration")) for line in said), said


# The rules for Prometheus are valid, and each fires when it must. tests/web/test_grafana.py knows their metrics.


RULES = ROOT / "packaging/prometheus/sluice.rules.yml"


@pytest.mark.parametrize(
    "argv",
    [("check", "rules", RULES), ("test", "rules", Path(__file__).parent / "prometheus_rules.yml")],
    ids=["valid", "fire"],
)
def test_promtool(argv: tuple[str, str, Path]) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is missing; on Debian: apt-get install prometheus")
    done = subprocess.run(["promtool", *map(str, argv)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(("metric", "limits"), [(FLOW_SECONDS, (1.0, 30.0)), (FLOW_SLOWDOWN, (50.0,))])
def test_a_limit_is_a_bound_of_the_histogram(metric: Metric, limits: tuple[float, ...]) -> None:
    for limit in limits:
        assert limit in metric.buckets
        assert f'le="{bound_text(limit)}"' in RULES.read_text()


# ── What campaigns of `make fuzz-parsers` have kept still breaks no parser ─────────────────────


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_answers_every_kept_input_with_its_own_errors_only(name: str) -> None:
    inputs = corpus(name)
    assert inputs, "a target without corpus"
    for data in inputs:
        TARGETS[name](data)
