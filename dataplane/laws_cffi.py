# SPDX-License-Identifier: Apache-2.0
"""The laws in Python. cffi compiles laws/*.h, so tests and tools call the same code as the kernel.

laws = laws_cffi.load()
state = laws.ffi.new("struct sl_tag_state *")
laws.lib.sl_tag_segment(state, seq, data_bytes, acked_seq, now_ns, idle_gap_ns)

The declarations for cffi come from the headers, because all headers have one form. Constants are `#define SL_…`.
Structures and laws begin in the first column, and `SL_LAW` or `SL_LAW_CALLED` begins every law.
"""

import importlib.util
import re
import shutil
import sysconfig
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from cffi import FFI

from sluice.dataplane import build
from sluice.policy.errors import EnvironmentLacking

_TYPES = """
typedef unsigned char sl_u8;
typedef unsigned int sl_u32;
typedef int sl_s32;
typedef unsigned long long sl_u64;
typedef long long sl_s64;
"""

_CONSTANT = re.compile(r"^#define (SL_[A-Z0-9_]+) +\S", re.MULTILINE)
_AGGREGATE = re.compile(r"^(?:struct|enum) \w+ \{.*?^\};|^enum \w+ \{[^\n]*\};", re.MULTILINE | re.DOTALL)
_FUNCTION = re.compile(r"^SL_LAW(?:_CALLED)? (.*?)\n\{", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


def headers() -> list[Path]:
    """Return every header of the laws."""
    return sorted(path for path in build.LAWS.glob("*.h") if not path.name.startswith("hooks"))


def declarations() -> str:
    """Return cffi declarations of the headers: constants, structures and a prototype for each law."""
    texts = [_COMMENT.sub("", path.read_text()) for path in headers() if path.name != "types.h"]
    constants = {name for text in texts for name in _CONSTANT.findall(text) if not name.endswith("_H")}
    parts = [_TYPES, *(f"#define {name} ..." for name in sorted(constants))]
    for pattern, ending in ((_AGGREGATE, ""), (_FUNCTION, ";")):
        for text in texts:
            parts += [match.group(1 if ending else 0) + ending for match in pattern.finditer(text)]
    return "\n".join(parts)


def load() -> ModuleType:
    """Return the compiled laws (attributes `ffi` and `lib`), and build them first if a header has changed.

    Raises EnvironmentLacking without a C compiler or Python's headers.
    """
    # A digest of all sources is in the name, so a changed header gives the module another one.
    sources = b"".join(path.read_bytes() for path in headers()) + Path(__file__).read_bytes()
    name = f"_sluice_laws_{sha256(sources).hexdigest()[:16]}"
    built = build.BUILD / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    if not built.exists():
        with build.lock():
            if not built.exists():
                _compile(name)
    spec = importlib.util.spec_from_file_location(name, built)
    if spec is None or spec.loader is None:
        raise ImportError(f"{built} is not a Python extension")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _compile(name: str) -> None:
    if shutil.which("cc") is None or not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise EnvironmentLacking(
            "a C compiler and Python's headers are needed: apt-get install build-essential python3-dev"
        )
    for stale in build.BUILD.glob("_sluice_laws_*"):
        stale.unlink()
    maker = FFI()
    maker.cdef(declarations())
    includes = "\n".join(f'#include "{path.name}"' for path in headers())
    maker.set_source(
        name, includes, include_dirs=[str(build.LAWS)], extra_compile_args=["-O2", "-Wall", "-Wextra"]
    )
    maker.compile(tmpdir=str(build.BUILD))
