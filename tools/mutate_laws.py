# SPDX-License-Identifier: Apache-2.0
"""Break the laws of dataplane/laws in one place at a time, and see whether their tests notice.

    python -m tools.mutate_laws [--share 0.25] [--seed 1] [--only TEXT] [HEADER ...]

A mutant has another operator, comparison or constant in one place. If the compiler makes the same machine code of it,
it is no mutant. The tests of its own law judge it, and if they pass, those of all laws. Each mutant has a process of
its own. The command prints the score and every survivor, and ends with 1 if there is one that ACCEPTED does not name.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import io
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cffi import FFI

from dataplane import build, laws_cffi
from tools.mutants import Numbers, Place, chosen, fails_in_a_child, judged, parser, report

TESTS = Path("tests/unit/dataplane")
NOT_OF_ONE_LAW = TESTS / "test_any_law.py"
SAME = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&"}
SAME |= {"+": "-", "-": "+", "*": "+", "/": "*", "%": "/", "<<": ">>", ">>": "<<", "&": "|", "|": "&"}
SAME |= {"+=": "-=", "-=": "+=", "*=": "+=", "/=": "*=", "<<=": ">>=", ">>=": "<<="}
_TOKEN = re.compile(
    r"(?P<skip>/\*.*?\*/|^#(?:include|ifndef|if|endif|undef|define \w+_H\b)[^\n]*|->|\+\+|--|\"[^\"]*\")"
    r"|(?P<operator><<=|>>=|[-+*/]=|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&|])"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<number>\d+)[uUlL]*",
    re.DOTALL | re.MULTILINE,
)
_QUEUED = "sl_u32 queued_us = s->rtt_at_quench_us > least_rtt_us ? s->rtt_at_quench_us - least_rtt_us : 0;"
_SAME = "the same value where equal"
_ROUNDED = "rounds a product in Q32, of which the result keeps the upper part, Q20"
ACCEPTED = {
    "d2tcp.h: < -> <= in `return d < SL_D2TCP_MIN_Q16 ? SL_D2TCP_MIN_Q16 : (sl_u32)d;`": _SAME,
    "datcp.h: > -> >= in `sl_u64 gap = desired > average ? desired - average : average - desired;`": _SAME,
    "datcp.h: 20 -> 21 in `if (gap / 20 >= average) /* gap / R_avg >= 20, or R_avg is 0: far above G */`": (
        "the division below gives a step above its maximum, too"
    ),
    "datcp.h: 47 -> 48 in `while (gap >> 47) { /* so that the product fits; both lose the same bits */`": (
        "48 bits and 16 more fit as well"
    ),
    "datcp.h: < -> <= in `return gap < SL_DATCP_STEP_MAX_Q16 ? (sl_u32)gap : SL_DATCP_STEP_MAX_Q16;`": _SAME,
    "datcp.h: < -> <= in `return urgency_q16 < SL_DATCP_URGENCY_MAX_Q16 - step ? urgency_q16 + step : "
    "SL_DATCP_URGENCY_MAX_Q16;`": _SAME,
    "datcp.h: > -> >= in `return urgency_q16 > SL_DATCP_URGENCY_MIN_Q16 + step ? urgency_q16 - step : "
    "SL_DATCP_URGENCY_MIN_Q16;`": _SAME,
    "datcp.h: > -> >= in `if (p > SL_DATCP_PRECEDENCE_MAX_Q16)`": _SAME,
    f"datcp.h: > -> >= in `{_QUEUED}`": _SAME,
    f"datcp.h: 0 -> 1 in `{_QUEUED}`": "at least the least round trip counts, and a quarter of 1 us is 0",
    "dctcp.h: 1 -> 2 in `return 1;`": "any number but 0 says that the window has ended",
    "dctcp.h: < -> <= in `sl_u32 left = cut < cwnd ? cwnd - (sl_u32)cut : 0;`": _SAME,
    "dctcp.h: 0 -> 1 in `sl_u32 left = cut < cwnd ? cwnd - (sl_u32)cut : 0;`": "SL_MIN_CWND is above both",
    "dctcp.h: > -> >= in `return cwnd / 2 > SL_MIN_CWND ? cwnd / 2 : SL_MIN_CWND;`": _SAME,
    "dqs.h: 1 -> 2 in `return 1;` (2)": "any number but 0 says that it is free",
    "dqs.h: > -> >= in `return !q->waiting && now_ns > q->emptied_ns && "
    "now_ns - q->emptied_ns > set->release_ns;`": "no time has passed then, and none is above release_ns",
    "dqs.h: < -> <= in `for (i = 0; i < SL_DQS_MAX_QUEUES; i++) {`": "the number of queues ends the loop before",
    "dqs.h: 1 -> 2 in `d->queue[at].assigned = 1;`": "any number but 0 says that it is assigned",
    "dqs.h: > -> >= in `q->waiting = q->waiting > packets ? q->waiting - packets : 0;`": _SAME,
    "dqs.h: > -> >= in `q->until_own = q->until_own > packets ? q->until_own - packets : 0;`": _SAME,
    "dqs.h: >= -> > in `if (at >= SL_DQS_MAX_QUEUES) /* never, but BPF's verifier needs the check */`": (
        "every sub-queue has a smaller number"
    ),
    "dqs.h: < -> <= in `for (i = 0; i < SL_DQS_MAX_QUEUES; i++, at++) {`": "no packet waits in any of them then",
    "dqs.h: < -> <= in `for (i = 0; i < SL_DQS_MAX_QUEUES; i++)`": "the number of queues comes first in its body",
    "dqs.h: < -> <= in `active += i < queues && !sl_dqs_is_free(&d->queue[i], set, now_ns);`": (
        "a sub-queue beyond the number is free"
    ),
    "drop_order.h: > -> >= in `return up_to > above ? up_to - above : 0;`": _SAME,
    "drop_order.h: 0 -> 1 in `enum sl_mark_by { SL_MARK_BY_PORT = 0, SL_MARK_BY_QUEUE = 1, "
    "SL_MARK_BY_AHEAD = 2 };`": "no law asks for it: the port is what remains",
    "drop_order.h: > -> >= in `sl_u64 room = sl_drop_order_room(buffer, mark_by, rank), below = total > "
    "above ? total - above : 0;`": _SAME,
    "mark.h: > -> >= in `if (!bytes || bytes > SL_VQ_MAX_BYTES)`": _SAME,
    "mark.h: <= -> < in `return phantom <= first ? 0 : sl_vq_drained(phantom - first, rate_bps, "
    "elapsed_ns - sent_ns - 1);`": _SAME,
    "mark.h: > -> >= in `if (grown > ~0ULL - phantom)`": "the sum is above every bound then",
    "mark.h: 0 -> 1 in `if (grown > ~0ULL - phantom)`": "the sum is above every bound then",
    "mark.h: <= -> < in `if (now_ns <= q->last_ns)`": "no time has passed, so nothing drains",
    "mark.h: >= -> > in `if (q->level >= real)`": _SAME,
    "mark.h: > -> >= in `q->phantom = q->phantom > behind ? q->phantom - behind : 0;`": _SAME,
    "mark.h: > -> >= in `if (!min || min > SL_VQ_MAX_BYTES || found <= min * SL_VQ_UNITS_PER_BYTE)`": (
        "no backlog is larger"
    ),
    "mark.h: 1 -> 2 in `return 1;`": "any number but 0 says that it marks",
    "mark.h: <= -> < in `return set->phantom_rate_bps && set->phantom_mark_bytes <= SL_VQ_MAX_BYTES &&`": (
        "no phantom queue is larger"
    ),
    "mcp.h: < -> <= in `if (packets < SL_MIN_CWND)`": _SAME,
    "mcp.h: < -> <= in `return packets < SL_MCP_NO_BOUND ? (sl_u32)packets : SL_MCP_NO_BOUND;`": _SAME,
    "power.h: 21 -> 22 in `if (whole > 21)`": "2^-22 in Q20 rounds to 0 anyway",
    "power.h: > -> >= in `if (whole > 21)`": "2^-21 in Q20 is half a unit, which may round to either side",
    "power.h: < -> <= in `for (i = 0; i < SL_POWER_BITS; i++) {` (2)": "the bit beyond the last is 0",
    "power.h: 1 -> 2 in `product -= ((product * sl_power_missing_q32[i] + (1ULL << 31)) >> 32) * bit;`": _ROUNDED,
    "power.h: + -> - in `product -= ((product * sl_power_missing_q32[i] + (1ULL << 31)) >> 32) * bit;`": _ROUNDED,
    "power.h: << -> >> in `product -= ((product * sl_power_missing_q32[i] + (1ULL << 31)) >> 32) * bit;`": _ROUNDED,
    "power.h: 31 -> 32 in `product -= ((product * sl_power_missing_q32[i] + (1ULL << 31)) >> 32) * bit;`": _ROUNDED,
    "power.h: >= -> > in `if (alpha_q20 >= SL_POWER_ONE_Q20)`": _SAME,
    "rate.h: > -> >= in `return size_bytes > acked_bytes ? size_bytes - acked_bytes : 0;`": _SAME,
    "rate.h: > -> >= in `return deadline_ns > now_ns ? (deadline_ns - now_ns) / 1000 : 0;`": _SAME,
    "reduction.h: > -> >= in `may_send = allowed > r->sent ? allowed - r->sent : 0;`": _SAME,
    "reduction.h: > -> >= in `allowed = r->delivered > r->sent ? r->delivered - r->sent : 0;`": _SAME,
    "tag.h: 32 -> 33 in `#define SL_TAG_ORIGIN (1ULL << 32)`": "any larger multiple of 2^32 is as good",
    "tag.h: 1 -> 2 in `#define SL_TAG_ORIGIN (1ULL << 32)`": "any larger multiple of 2^32 is as good",
    "tag.h: <= -> < in `if (below + step <= SL_ATTAINED_BUCKETS && sl_attained_edges_bytes[below + step "
    "- 1] < attained_bytes)`": "what is above the last edge gets the last bucket anyway",
    "tag.h: > -> >= in `return now_ns > s->last_data_ns && now_ns - s->last_data_ns > idle_gap_ns;`": (
        "no time has passed then, and none is above the gap"
    ),
    "tag.h: > -> >= in `if (to > s->end)`": _SAME,
    "tag.h: > -> >= in `return from > s->start ? from - s->start : 0;`": _SAME,
    "ucp.h: >= -> > in `if (now_ns >= deadline_ns)`": "with no time left, the share says the same",
    "ucp.h: > -> >= in `elapsed = now_ns > start_ns ? now_ns - start_ns : 0;`": _SAME,
    "ucp.h: 47 -> 48 in `if (elapsed >= 1ULL << 47) { /* 39 hours, so that the product fits */`": (
        "48 bits and 16 more fit as well"
    ),
    "ucp.h: >= -> > in `if (elapsed >= 1ULL << 47) { /* 39 hours, so that the product fits */`": (
        "48 bits and 16 more fit as well"
    ),
    "ucp.h: 1 -> 2 in `if (elapsed >= 1ULL << 47) { /* 39 hours, so that the product fits */`": (
        "48 bits and 16 more fit as well"
    ),
}
"""Key of a survivor → why no test can or should notice it."""


@dataclass(frozen=True)
class Mutant(Place):
    """A token of a header, and what stands there instead."""

    start: int
    end: int
    after: str


def main(argv: list[str] | None = None) -> int:
    given = parser(__doc__, "file names in dataplane/laws; all unless given").parse_args(argv)
    paths = [path for path in laws_cffi.headers() if not given.files or path.name in given.files]
    return _judge_all(chosen([mutant for path in paths for mutant in mutants(path)], given))


def mutants(path: Path) -> Iterator[Mutant]:
    """Yield the mutants of a header. Generated headers and declarations of types have none."""
    if path.name == "types.h" or path.name.endswith(".gen.h"):
        return
    text, numbers = path.read_text(), Numbers()
    for found in _TOKEN.finditer(text):
        token = found["operator"] or found["number"]
        if token is None or _is_of_a_type(text, found):
            continue
        after = SAME[token] if found["operator"] else str(int(token) + 1)
        start = found.start("operator" if found["operator"] else "number")
        line = text.count("\n", 0, start)
        what, code = f"{token} -> {after}", text.splitlines()[line].strip()
        number = numbers.next(what, code)
        yield Mutant(path.name, line + 1, what, code, number, start, start + len(token), after)


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
        if any(_fail(files, place) for files in _groups("")):
            sys.exit("the tests of the laws fail without a mutant: mend that first")
        verdicts = {mutant: judged(mutant, _verdict(mutant, place, original)) for mutant in picked}
    return report(verdicts, ACCEPTED)


def _verdict(mutant: Mutant, place: Path, original: str) -> str:
    digest = _compiled(place, mutant)
    if digest is None:
        return "killed"  # it does not compile
    if digest == original:
        return "equal"
    return "killed" if any(_fail(files, place) for files in _groups(mutant.file)) else "survived"


def _write_wrapper(place: Path) -> None:
    maker = FFI()
    maker.cdef(laws_cffi.declarations())
    maker.set_source("mutant", "\n".join(f'#include "{path.name}"' for path in laws_cffi.headers()))
    maker.emit_c_code(str(place / "mutant.c"))


def _compiled(place: Path, mutant: Mutant | None) -> str | None:
    """Compile the laws into place/mutant.so. Returns a digest of the code; None if the compiler refuses it."""
    laws, original = place / "laws", place / "original"
    if not original.exists():  # an edit while the command runs would move the places of the mutants
        shutil.copytree(build.LAWS, original)
    shutil.rmtree(laws, ignore_errors=True)
    shutil.copytree(original, laws)
    if mutant is not None:
        path = laws / mutant.file
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


def _groups(header: str) -> list[list[Path]]:
    """Return the tests of a header's law, and then those of all others."""
    own = TESTS / f"test_{header.removesuffix('.h')}_law.py"
    others = sorted(set(TESTS.glob("test_*law.py")) - {own, NOT_OF_ONE_LAW})
    return [[own], others] if own.exists() else [others]


def _fail(files: list[Path], place: Path) -> bool:
    return fails_in_a_child(files, lambda: _use(place / "mutant.so"))


def _use(extension: Path) -> None:
    """Make the tests load this module, and read its headers."""
    spec = importlib.util.spec_from_file_location("mutant", extension)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(laws_cffi)["load"] = lambda: module
    vars(build)["LAWS"] = extension.parent / "laws"


if __name__ == "__main__":
    sys.exit(main())
