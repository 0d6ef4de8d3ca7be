# SPDX-License-Identifier: Apache-2.0
"""Break the laws of dataplane/laws in one place at a time, and see whether their tests notice.

    python -m tools.mutate_laws [--share 0.25] [--seed 1] [HEADER ...]

A mutant has another operator, comparison or constant in one place. If the compiler makes the same machine code of it,
it is no mutant. The tests of its own law judge it, and if they pass, those of all laws. Each mutant has a process of
its own. The command prints the score and every survivor, and ends with 1 if there is one that ACCEPTED does not name.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib.util
import io
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cffi import FFI
from hypothesis import Phase, settings

from dataplane import build, laws_cffi

TESTS = Path("tests/unit/dataplane")
NOT_OF_ONE_LAW = TESTS / "test_any_law.py"
LIMIT_S = 120
SAME = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
SAME |= {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&"}
SAME |= {"+=": "-=", "-=": "+=", "*=": "+=", "/=": "*=", "<<=": ">>=", ">>=": "<<="}
_TOKEN = re.compile(
    r"(?P<skip>/\*.*?\*/|^#(?:include|ifndef|if|endif|undef|define \w+_H\b)[^\n]*|->|\+\+|--|\"[^\"]*\")"
    r"|(?P<operator><<=|>>=|[-+*/]=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&|])"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>\d+)[uUlL]*",
    re.DOTALL | re.MULTILINE,
)
_CUT = "return d < SL_D2TCP_MIN_Q16 ? SL_D2TCP_MIN_Q16 : (sl_u32)d;"
_QUEUED = "sl_u32 queued_us = s->rtt_at_quench_us > least_rtt_us ? s->rtt_at_quench_us - least_rtt_us : 0;"
_FAR = "if (gap / 20 >= average) /* gap / R_avg >= 20, or R_avg is 0: far above G */"
ACCEPTED = {
    f"d2tcp.h:51: < -> <= in `{_CUT}`": "the same value where equal",
    f"datcp.h:199: > -> >= in `{_QUEUED}`": "the same value where equal",
    "dqs.h:66: 1 -> 2 in `return 1;`": "any number but 0 says that it is free",
    "dqs.h:88: < -> <= in `for (i = 0; i < SL_DQS_MAX_QUEUES; i++) {`": "the number of queues ends the loop before",
    "dqs.h:132: > -> >= in `q->waiting = q->waiting > packets ? q->waiting - packets : 0;`": "the same where equal",
    "dqs.h:160: < -> <= in `for (i = 0; i < SL_DQS_MAX_QUEUES; i++)`": "the number of queues comes first in its body",
    "dqs.h:161: < -> <= in `active += i < queues && !sl_dqs_is_free(&d->queue[i], set, now_ns);`": (
        "a sub-queue beyond the number is free"
    ),
    "drop_order.h:156: > -> >= in `return up_to > above ? up_to - above : 0;`": "the same where equal",
    f"datcp.h:112: 20 -> 21 in `{_FAR}`": "the division below gives a step above its maximum, too",
}
"""Survivor, as it is printed → why no test can or should notice it."""


@dataclass(frozen=True)
class Mutant:
    """One place of a header, and what stands there instead."""

    header: str
    start: int
    end: int
    line: int
    before: str
    after: str
    code: str

    def __str__(self) -> str:
        return f"{self.header}:{self.line}: {self.before} -> {self.after} in `{self.code}`"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("headers", nargs="*", help="file names in dataplane/laws; all unless given")
    parser.add_argument("--share", type=float, default=1.0, help="of all mutants, chosen at random")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    chosen = [path for path in laws_cffi.headers() if not given.headers or path.name in given.headers]
    all_of_them = [mutant for path in chosen for mutant in mutants(path)]
    picked = random.Random(given.seed).sample(all_of_them, round(given.share * len(all_of_them)))
    return _judge_all(sorted(picked, key=lambda mutant: (mutant.header, mutant.start)))


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield the mutants of a header. Generated headers and declarations of types have none."""
    if path.name == "types.h" or path.name.endswith(".gen.h"):
        return
    text = path.read_text()
    for found in _TOKEN.finditer(text):
        token = found["operator"] or found["number"]
        if token is None or _is_of_a_type(text, found):
            continue
        after = SAME[token] if found["operator"] else str(int(token) + 1)
        start = found.start("operator" if found["operator"] else "number")
        line = text.count("\n", 0, start)
        yield Mutant(
            path.name, start, start + len(token), line + 1, token, after, text.splitlines()[line].strip()
        )


def _is_of_a_type(text: str, found: re.Match[str]) -> bool:
    """Whether an asterisk declares a pointer or follows one, or an ampersand takes an address."""
    if found["operator"] == "*":
        return text[found.end()] != " " or text[found.start() - 1] != " "
    return found["operator"] == "&" and text[found.end()] != " "


# ── Judging ────────────────────────────────────────────────────────────────────────────────────


def _judge_all(picked: list[Mutant]) -> int:
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        place = Path(folder)
        _write_wrapper(place)
        original = _compiled(place, None)
        assert original is not None
        pytest.main(
            ["-q", "--collect-only", *map(str, TESTS.glob("test_*law.py"))]
        )  # imports all that tests need
        if any(_fails_in_a_child(files, place) for files in _groups("")):
            sys.exit("the tests of the laws fail without a mutant: mend that first")
        verdicts = {mutant: _verdict(mutant, place, original) for mutant in picked}
    survivors = [mutant for mutant, verdict in verdicts.items() if verdict == "survived"]
    killed = sum(verdict == "killed" for verdict in verdicts.values())
    equal = sum(verdict == "equal" for verdict in verdicts.values())
    for mutant in survivors:
        print(f"survived: {mutant}  {ACCEPTED.get(str(mutant), '')}")
    judged = killed + len(survivors)
    print(
        f"{killed} of {judged} mutants killed ({100 * killed / max(1, judged):.1f} %), {equal} without effect on code"
    )
    return 1 if any(str(mutant) not in ACCEPTED for mutant in survivors) else 0


def _verdict(mutant: Mutant, place: Path, original: str) -> str:
    digest = _compiled(place, mutant)
    if digest is None:
        return "killed"  # it does not compile
    verdict = "equal" if digest == original else "killed" if _tests_fail(mutant, place) else "survived"
    print(f"{verdict:9} {mutant}", file=sys.stderr, flush=True)
    return verdict


def _write_wrapper(place: Path) -> None:
    maker = FFI()
    maker.cdef(laws_cffi.declarations())
    maker.set_source("mutant", "\n".join(f'#include "{path.name}"' for path in laws_cffi.headers()))
    maker.emit_c_code(str(place / "mutant.c"))


def _compiled(place: Path, mutant: Mutant | None) -> str | None:
    """Compile the laws into place/mutant.so. Returns a digest of the code; None if the compiler refuses it."""
    laws = place / "laws"
    shutil.rmtree(laws, ignore_errors=True)
    shutil.copytree(build.LAWS, laws)
    if mutant is not None:
        path = laws / mutant.header
        text = path.read_text()
        path.write_text(text[: mutant.start] + mutant.after + text[mutant.end :])
    argv = [
        "cc",
        "-O1",
        "-w",
        "-fPIC",
        "-shared",
        f"-I{laws}",
        f"-I{sysconfig.get_path('include')}",
        "mutant.c",
    ]
    done = subprocess.run([*argv, "-o", "mutant.so"], cwd=place, capture_output=True, check=False)
    return hashlib.sha256((place / "mutant.so").read_bytes()).hexdigest() if done.returncode == 0 else None


def _tests_fail(mutant: Mutant, place: Path) -> bool:
    return any(_fails_in_a_child(files, place) for files in _groups(mutant.header))


def _groups(header: str) -> list[list[Path]]:
    """Return the tests of a header's law, and then those of all others."""
    own = TESTS / f"test_{header.removesuffix('.h')}_law.py"
    others = sorted(set(TESTS.glob("test_*law.py")) - {own, NOT_OF_ONE_LAW})
    return [[own], others] if own.exists() else [others]


def _fails_in_a_child(files: list[Path], place: Path) -> bool:
    child = os.fork()
    if child == 0:
        signal.setitimer(signal.ITIMER_PROF, LIMIT_S)  # of CPU time: a mutant may loop for ever
        status = 1
        with contextlib.suppress(BaseException):
            _use(place / "mutant.so")
            status = int(
                pytest.main(["-x", "-q", "-p", "no:cacheprovider", *map(str, files)], [NoShrinking()])
            )
        os._exit(status)
    return os.waitpid(child, 0)[1] != 0


def _use(extension: Path) -> None:
    """Make the tests load this module."""
    spec = importlib.util.spec_from_file_location("mutant", extension)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(laws_cffi)["load"] = lambda: module


class NoShrinking:
    """A pytest plugin: a failing example need not become simpler."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        settings.register_profile(
            "mutants", phases=[Phase.explicit, Phase.generate], database=None, deadline=None
        )
        settings.load_profile("mutants")


if __name__ == "__main__":
    sys.exit(main())
