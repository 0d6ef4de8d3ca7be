# SPDX-License-Identifier: Apache-2.0
"""Every law on any input: no behaviour that C leaves undefined, and no number that wraps around by mistake.

Below: powers, logarithms and rates against double precision and rational numbers.
"""

import re
import shutil
import subprocess
from decimal import Decimal, localcontext
from fractions import Fraction
from math import floor
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.dataplane import build
from sluice.runtime.command import run
from tests.unit.dataplane import law_driver
from tests.unit.dataplane.law_driver import alphas, u32, u64, unsigned

_WRAPS_ON_PURPOSE = (
    "sl_window_",  # sequence numbers and running counts, whose differences are taken modulo 2^32
    "sl_tag_",  # likewise
    "sl_vq_arrive",  # multiplies a length by the units before it refuses too long ones
    "sl_ranked_arrive",  # likewise
    "sl_if_",  # a comparison without a branch: the sign of a difference
    "sl_ahead_",  # calls it
    "sl_backlog_that_marks",  # likewise
    "sl_vq_phantom",  # callers pass only times in which the queue could drain all that was sent
    "sl_dqs_",  # a multiplicative hash
)
_CLANG_TRAPS = "-fsanitize=undefined,unsigned-integer-overflow", "-fsanitize-trap=all"


def compiled(
    compiler: str, laws: ModuleType, flags: tuple[str, ...], directory: Path, omit: tuple[str, ...] = ()
) -> Path:
    """Build the driver, without laws whose names begin with one of `omit`."""
    source, program = directory / "driver.c", directory / "driver"
    source.write_text(law_driver.source(laws, omit))
    command = [compiler, "-O1", "-g", "-Wall", "-Wextra", "-Werror", f"-I{build.LAWS}", *flags]
    run([*command, str(source), "-o", str(program)])
    return program


def require_ubsan(directory: Path) -> None:
    """Skip the test if the C compiler has no library of the sanitizer."""
    source = directory / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    if shutil.which("cc") is None:
        pytest.skip("no C compiler")
    command = ["cc", "-fsanitize=undefined", str(source), "-o", str(directory / "empty")]
    missing = subprocess.run(command, capture_output=True, text=True, check=False)
    if missing.returncode:
        pytest.skip(
            f"cc has no undefined-behaviour sanitizer here: {missing.stderr.strip().splitlines()[-1]}"
        )


def ran(program: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.slow
def test_laws__no_undefined_behaviour(laws: ModuleType, tmp_path: Path) -> None:
    require_ubsan(tmp_path)
    flags = ("-fsanitize=undefined", "-fno-sanitize-recover=all")
    ended = ran(compiled("cc", laws, flags, tmp_path))
    assert ended.returncode == 0, f"{ended.stdout.splitlines()[-1]}: {ended.stderr}"


@pytest.mark.slow
def test_laws__no_wrap_around(laws: ModuleType, tmp_path: Path) -> None:
    """clang's sanitizer also finds unsigned numbers that wrap. It needs no library, because it traps."""
    if shutil.which("clang") is None:
        pytest.skip("no clang")
    ended = ran(compiled("clang", laws, _CLANG_TRAPS, tmp_path, omit=_WRAPS_ON_PURPOSE))
    assert ended.returncode == 0, f"a number wraps around in {ended.stdout.splitlines()[-1]}"


# ── Powers, logarithms and rates in integers ───────────────────────────────────────────────────


# laws/power.h against powers and logarithms in double precision, whose own error (2^-53) is far below the laws'.


ONE_Q20 = 2**20
ONE_Q16 = 2**16
ERROR_Q20 = 2
"""The header's claim: less than this."""

exponents = st.one_of(st.integers(0, 16 * ONE_Q16), st.integers(0, 300), st.integers(0, 4 * ONE_Q16))


def real_power_q20(alpha_q20: int, exponent_q16: int) -> float:
    """Return alpha^s in the header's range: larger alpha count as 1, larger s as 16."""
    return float(ONE_Q20 * min(1.0, alpha_q20 / ONE_Q20) ** min(16.0, exponent_q16 / ONE_Q16))


def test_missing__entries_are_the_nearest() -> None:
    """1 - 2^(-2^-i). No other test would detect an entry that is one unit off."""
    text = (build.LAWS / "power.h").read_text()
    table = re.search(r"sl_power_missing_q32\[.*?\{(.*?)\}", text, re.DOTALL)
    assert table
    missing, root = [int(units) for units in re.findall(r"(\d+)U", table[1])], Decimal("0.5")
    with localcontext(prec=50):
        for got in missing:
            root = root.sqrt()
            assert got == round(2**32 * (1 - root))
    assert len(missing) == 24


@given(st.one_of(alphas, u32), st.one_of(exponents, u32))
def test_power__is_within_its_error(laws: ModuleType, alpha_q20: int, exponent_q16: int) -> None:
    got = laws.lib.sl_power_q20(alpha_q20, exponent_q16)
    assert abs(got - real_power_q20(alpha_q20, exponent_q16)) < ERROR_Q20
    assert 0 <= got <= ONE_Q20


def test_power__with_exponent_one_is_the_share_itself(laws: ModuleType) -> None:
    """A flow without a deadline gets exactly DCTCP's cut."""
    shares = (*range(0, ONE_Q20, 17), ONE_Q20)
    assert all(laws.lib.sl_power_q20(alpha, ONE_Q16) == alpha for alpha in shares)


def test_power__at_the_ends(laws: ModuleType) -> None:
    for exponent in (1, ONE_Q16, 16 * ONE_Q16, 2**32 - 1):
        assert laws.lib.sl_power_q20(0, exponent) == 0, "no mark, no cut"
        assert laws.lib.sl_power_q20(ONE_Q20, exponent) == ONE_Q20
    for alpha in (0, 1, ONE_Q20, 2**32 - 1):
        assert laws.lib.sl_power_q20(alpha, 0) == ONE_Q20
    assert laws.lib.sl_power_q20(2**18, 2 * ONE_Q16) == 2**16
    assert laws.lib.sl_power_q20(2**18, ONE_Q16 // 2) == 2**19
    assert laws.lib.sl_power_q20(2**18, 2**32 - 1) == laws.lib.sl_power_q20(2**18, 16 * ONE_Q16) == 0
    assert laws.lib.sl_power_q20(ONE_Q20 * 31 // 32, 17 * ONE_Q16) == round(ONE_Q20 * (31 / 32) ** 16)


@given(alphas, exponents, st.one_of(st.integers(0, 3), exponents))
def test_power__never_grows_with_the_exponent(
    laws: ModuleType, alpha_q20: int, exponent_q16: int, more: int
) -> None:
    power = laws.lib.sl_power_q20
    assert power(alpha_q20, exponent_q16 + more) <= power(alpha_q20, exponent_q16)


# ── laws/rate.h in rational numbers ────────────────────────────────────────────────────────────


U64 = 2**64 - 1


@given(unsigned(44), u64)
def test_rate__is_exact_and_rounded_down(laws: ModuleType, size_bytes: int, us: int) -> None:
    expected = floor(Fraction(size_bytes * 10**6, us)) if us else U64 * (size_bytes > 0)
    assert laws.lib.sl_rate_bytes_per_s(size_bytes, us) == expected


@given(st.integers(2**44 + 1, U64), u64)
def test_rate__of_more_is_the_largest(laws: ModuleType, size_bytes: int, us: int) -> None:
    assert laws.lib.sl_rate_bytes_per_s(size_bytes, us) == laws.lib.SL_RATE_MAX == U64


@given(u64, st.one_of(st.just(None), st.integers(-5000, 5000), u64))
def test_left__is_whole_microseconds_and_none_when_the_deadline_has_passed(
    laws: ModuleType, deadline_ns: int, now: int | None
) -> None:
    now_ns = deadline_ns if now is None else now if now > 5000 else min(U64, max(0, deadline_ns + now))
    assert laws.lib.sl_left_us(deadline_ns, now_ns) == max(0, deadline_ns - now_ns) // 1000
