# SPDX-License-Identifier: Apache-2.0
"""The laws as Python sees them: compiled from laws/*.h by cffi, so that tests and tools call the very code that runs.

laws = laws_cffi.load()
state = laws.ffi.new("struct sl_tag_state *")
laws.lib.sl_tag_segment(state, seq, data_bytes, now_ns, idle_gap_ns)
"""

from __future__ import annotations

import importlib.util
import shutil
import sysconfig
from hashlib import sha256
from pathlib import Path
from types import ModuleType

from cffi import FFI

from dataplane import build
from policy.errors import EnvironmentLacking

_HEADERS = ("tag.h", "mark.h", "dctcp.h", "reduction.h")

_DECLARATIONS = """
#define SL_TAG_COUNT ...
#define SL_DCTCP_ALPHA_ONE ...
#define SL_MIN_CWND ...
#define SL_VQ_MAX_BYTES ...
#define SL_VQ_UNITS_PER_BYTE ...

struct sl_tag_state { unsigned long long start, end, last_data_ns; };
unsigned int sl_attained_tag(unsigned long long attained_bytes);
unsigned long long sl_tag_gap_ns(unsigned long long configured_ns, unsigned int srtt_us);
unsigned long long sl_tag_segment(struct sl_tag_state *s, unsigned int seq, unsigned int data_bytes,
                                  unsigned int acked_seq, unsigned long long now_ns, unsigned long long idle_gap_ns);
int sl_tag_carried_data(const struct sl_tag_state *s);
unsigned long long sl_tag_datagram(struct sl_tag_state *s, unsigned int data_bytes,
                                   unsigned long long now_ns, unsigned long long idle_gap_ns);

struct sl_vq_settings { unsigned long long rate_bps, mark_bytes, buffer_bytes; };
struct sl_vq_state { unsigned long long level, last_ns; };
enum sl_vq_verdict { SL_VQ_PASS, SL_VQ_MARK, SL_VQ_DROP };
unsigned long long sl_vq_backlog_bytes(const struct sl_vq_state *q);
void sl_vq_drain(struct sl_vq_state *q, unsigned long long rate_bps, unsigned long long now_ns);
enum sl_vq_verdict sl_vq_arrive(struct sl_vq_state *q, const struct sl_vq_settings *set, unsigned int len_bytes,
                                unsigned long long now_ns);

struct sl_window { unsigned int end_seq, acked, marked; };
struct sl_window_sum { unsigned int acked, marked; };
void sl_window_begin(struct sl_window *w, unsigned int snd_nxt, unsigned int acked, unsigned int marked);
int sl_window_ended(struct sl_window *w, unsigned int snd_una, unsigned int snd_nxt, unsigned int acked,
                    unsigned int marked, struct sl_window_sum *sum);
unsigned int sl_dctcp_alpha(unsigned int alpha_q20, unsigned int acked, unsigned int marked);
unsigned int sl_dctcp_cwnd(unsigned int cwnd, unsigned int alpha_q20);
unsigned int sl_loss_cwnd(unsigned int cwnd);

struct sl_reduction { unsigned int cwnd_before, target, delivered, newly_delivered, sent; };
unsigned int sl_reduced_cwnd(const struct sl_reduction *r, unsigned int in_flight);
unsigned int sl_idle_cwnd(unsigned int cwnd, unsigned int initial_cwnd, unsigned int timeouts);
"""


def load() -> ModuleType:
    """The compiled laws (attributes `ffi` and `lib`), built first when a header has changed.

    Raises EnvironmentLacking without a C compiler or Python's headers.
    """
    name = f"_sluice_laws_{_digest()}"
    built = _built(name)
    if built is None:
        with build.lock():
            built = _built(name) or _compile(name)
    spec = importlib.util.spec_from_file_location(name, built)
    if spec is None or spec.loader is None:
        raise ImportError(f"{built} is not a Python extension")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _digest() -> str:
    """Of everything that the module is made from: a changed header makes a module of another name."""
    sources = b"".join(path.read_bytes() for path in sorted(build.LAWS.glob("*.h")))
    return sha256(sources + _DECLARATIONS.encode()).hexdigest()[:16]


def _built(name: str) -> Path | None:
    path = build.BUILD / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    return path if path.exists() else None


def _require_compiler() -> None:
    if shutil.which("cc") is None or not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise EnvironmentLacking(
            "a C compiler and Python's headers are needed: apt-get install build-essential python3-dev"
        )


def _compile(name: str) -> Path:
    _require_compiler()
    for stale in build.BUILD.glob("_sluice_laws_*"):
        stale.unlink()
    maker = FFI()
    maker.cdef(_DECLARATIONS)
    includes = "\n".join(f'#include "{header}"' for header in _HEADERS)
    maker.set_source(
        name, includes, include_dirs=[str(build.LAWS)], extra_compile_args=["-O2", "-Wall", "-Wextra"]
    )
    return Path(maker.compile(tmpdir=str(build.BUILD)))
