# SPDX-License-Identifier: Apache-2.0
"""A C program that calls every law many times on random inputs of all magnitudes, for a sanitizer.

This file makes it from the laws' declarations, so a new law needs no entry here.
"""

from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from sluice.dataplane import laws_cffi

_ROUNDS = 10_000
_SEED = 0x5EED

KEPT_BY_LAWS = {"sl_ahead", "sl_datcp_state", "sl_dqs", "sl_dqs_queue", "sl_vq_state"}
"""Structures that only laws write. They start at zero and keep the laws' values. All others get random values."""

WITHIN: dict[tuple[str, int], tuple[int, int]] = {
    ("sl_ahead_admitted", 2): (0, 1 << 40),
    ("sl_minus_log2_q24", 0): (1, 1 << 20),
    ("sl_vq_drained", 1): (1, 2**64 - 1),
    ("sl_vq_phantom_shrunk", 2): (1, 2**64 - 1),
}
"""(law, argument): the range that the law states, if it does not accept every number."""

NON_ZERO: dict[tuple[str, str], str] = {
    ("sl_vq_drain", "sl_vq_settings"): "rate_bps",
    ("sl_vq_phantom", "sl_vq_settings"): "phantom_rate_bps",
}
"""(law, structure): a field by which the law divides. Its callers must check the field."""

_PRELUDE = """
#include <stdio.h>
#include <string.h>

static sl_u64 seed = @SEED@;
static volatile sl_u64 sink;

static sl_u64 bits(void) /* xorshift64* (Vigna, 2016) */
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (sl_u64)((unsigned __int128)seed * 0x2545F4914F6CDD1DULL);
}

/* A random number of this width: small, of any magnitude, near a power of two, the largest. */
static sl_u64 any(unsigned int width)
{
	sl_u64 top = ~0ULL >> (64 - width), choice = bits() % 8, at = bits() % width, offset = bits() % 5;

	if (choice == 0)
		return bits() % 4;
	if (choice == 1)
		return top - bits() % 4;
	if (choice <= 3)
		return ((1ULL << at) - (offset < 2 && at ? offset : 0) + (offset > 2 && at < 63 ? offset - 2 : 0)) & top;
	return (bits() & top) >> at;
}

static sl_u64 within(unsigned int width, sl_u64 least, sl_u64 most)
{
	sl_u64 number = any(width);

	return number < least ? least : number > most ? most : number;
}

/* Fill a structure with random numbers of 4 bytes, or of 8 bytes. */
static void fill(void *structure, unsigned int size)
{
	unsigned int bytes = size % 8 == 0 && bits() % 2 ? 8 : 4;

	for (unsigned int at = 0; at < size; at += bytes) {
		sl_u64 number = any(8 * bytes);

		memcpy((char *)structure + at, &number, bytes);
	}
}
"""


def laws_of(laws: ModuleType) -> list[str]:
    """Return the names of all laws."""
    return sorted(name for name in dir(laws.lib) if name.startswith("sl_"))


def source(laws: ModuleType, omit: tuple[str, ...] = ()) -> str:
    """Return the program, without the laws whose names begin with one of `omit`.

    It prints each law's name before its calls, so the last name is the law in which a trap ended it.
    """
    called = [name for name in laws_of(laws) if not name.startswith(omit)]
    structures = sorted(name for name in laws.ffi.list_types()[1] if name.startswith("sl_"))
    includes = "\n".join(f'#include "{path.name}"' for path in laws_cffi.headers())
    parts = [includes, _PRELUDE.replace("@SEED@", str(_SEED))]
    parts += [f"static struct {name} the_{name} __attribute__((unused));" for name in structures]
    parts += [_turn(laws, name) for name in called]
    calls = "\n".join(f'\tputs("{name}");\n\tfflush(stdout);\n\ttry_{name}();' for name in called)
    parts.append(f"int main(void)\n{{\n{calls}\n\treturn 0;\n}}\n")
    return "\n".join(parts)


def _name(ctype: Any) -> str:
    return str(ctype.cname).replace("const ", "").replace("struct ", "").rstrip(" *")


def _turn(laws: ModuleType, name: str) -> str:
    """Return a function that calls one law many times."""
    function = laws.ffi.typeof(getattr(laws.lib, name))
    prepare, arguments = [], []
    for at, ctype in enumerate(function.args):
        if ctype.kind == "pointer" and ctype.item.kind == "struct":
            prepare.append(_structure_for(name, _name(ctype.item)))
            arguments.append(f"&the_{_name(ctype.item)}")
        elif ctype.kind == "pointer":
            prepare.append(f"\t\t{ctype.item.cname} out_{at} = 0;")
            arguments.append(f"&out_{at}")
        else:
            prepare.append(f"\t\t{ctype.cname} in_{at} = {_number_for(name, at, ctype)};")
            arguments.append(f"in_{at}")
    call = f"{name}({', '.join(arguments)})"
    statement = f"{call};" if function.result.kind == "void" else f"sink ^= (sl_u64){call};"
    body = "\n".join(line for line in prepare if line)
    return f"""
static void try_{name}(void)
{{
	for (unsigned int round = 0; round < {_ROUNDS}; round++) {{
{body}
		{statement}
	}}
}}
"""


def _structure_for(law: str, name: str) -> str:
    if name in KEPT_BY_LAWS:
        return f"\t\tif (round % 500 == 0)\n\t\t\tmemset(&the_{name}, 0, sizeof(the_{name}));"
    lines = f"\t\tif (bits() % 4)\n\t\t\tfill(&the_{name}, sizeof(the_{name}));"
    field = NON_ZERO.get((law, name))
    return lines + (f"\n\t\tthe_{name}.{field} += !the_{name}.{field};" if field else "")


def _number_for(law: str, at: int, ctype: Any) -> str:
    width = f"8 * sizeof({ctype.cname})"
    if (law, at) in WITHIN:
        least, most = WITHIN[law, at]
        return f"({ctype.cname})within({width}, {least}ULL, {most}ULL)"
    return f"({ctype.cname})any({width})"


def unsigned(bits: int) -> st.SearchStrategy[int]:
    """Return integers of this many bits: small ones, any, those near a power of two, and the largest."""
    top = 2**bits - 1
    near = st.integers(0, bits).flatmap(lambda b: st.integers(max(0, 2**b - 2), min(top, 2**b + 2)))
    magnitude = st.integers(0, bits).flatmap(lambda b: st.integers(0, 2**b - 1))
    return st.one_of(st.integers(0, 100), near, magnitude, st.integers(0, top))


u32 = unsigned(32)
u64 = unsigned(64)
alphas = st.one_of(st.integers(0, 2**20), st.integers(0, 2000), st.integers(2**20 - 2000, 2**20))
"""Shares of marked packets, Q20: 0 … 1."""
