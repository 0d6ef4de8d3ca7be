# SPDX-License-Identifier: Apache-2.0
"""Controls of experiments/peers on one link: what their papers promise of queues, rates and shares."""

import ctypes
import math
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import peers
from sluice.runtime import control_files
from sluice.simulator import _fabric as core
from sluice.simulator import build
from tests.sim import kit
from tests.sim.bottleneck import FULL, RATE, bottleneck, forever, goodput_bps, queue_samples
from tests.sim.kit import FRAME, MS, PAYLOAD, US

pytestmark = pytest.mark.usefixtures("no_plugin_stays")

FOLDER = Path(peers.__file__).parent
TRIP = 20 * US


def settings(name: str, **values: int) -> core.TransportSettings:
    control = control_files.read(FOLDER / f"{name}.h")
    made = kit.transport(echo=core.Echo.none)
    made.load_control(
        str(build.control_library(control)), [values.get(p.name, p.default) for p in control.parameters]
    )
    return made


@pytest.fixture(scope="module")
def swift_target_ns(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], int]:
    """The function of the file, by the window in packets with 16 bits of fraction."""
    library = tmp_path_factory.mktemp("swift") / "target.so"
    source = (
        f'#include "{FOLDER}/swift.h"\n#include "hooks_table.h"\n'
        "sl_u64 target_ns(sl_u64 cwnd_q16);\nsl_u64 target_ns(sl_u64 cwnd_q16)\n{\n"
        "#define SL_VALUE(name, value, help) .name = value,\n"
        "\tstatic const struct sl_parameters p = {SL_PARAMETERS(SL_VALUE)};\n"
        "\tstruct sl_sender s = {.cwnd_q16 = cwnd_q16, .parameters = &p};\n\treturn swift_target_ns(&s);\n}\n"
    )
    flags = ["-shared", "-fPIC", f"-I{build.LAWS}", "-fsanitize=undefined", "-fno-sanitize-recover"]
    subprocess.run(["cc", *flags, "-x", "c", "-", "-o", str(library)], input=source, text=True, check=True)
    call = ctypes.CDLL(str(library)).target_ns
    call.argtypes, call.restype = [ctypes.c_uint64], ctypes.c_uint64
    return lambda cwnd_q16: int(call(cwnd_q16))


@given(packets=st.floats(0.01, 1000))
def test_swift__the_target_is_that_of_the_papers_flow_scaling(
    swift_target_ns: Callable[[int], int], packets: float
) -> None:
    default = {p.name: p.default for p in control_files.read(FOLDER / "swift.h").parameters}
    base, spread = default["base_target_ns"], default["range_ns"]
    low, high = default["least_scaled_milli"] / 1000, default["most_scaled_milli"] / 1000
    a = spread / (1 / math.sqrt(low) - 1 / math.sqrt(high))
    scaled = max(0.0, min(a / math.sqrt(packets) - a / math.sqrt(high), spread))
    assert swift_target_ns(round(packets * 65536)) == pytest.approx(base + scaled, abs=0.01 * spread)


@pytest.mark.parametrize("flows", [1, 8, 32])
def test_swift__fills_the_link_with_its_delay_at_the_target(flows: int) -> None:
    """The delay is the target of the flows' windows, within a packet of each flow, and no more than their share."""
    net = bottleneck(flows, TRIP, settings("swift"), buffer_bytes=2_000_000)
    for source in range(flows):
        forever(net, source, flows, source * US)
    net.run(20 * MS)
    queue = queue_samples(net, 30 * MS, 3 * US, flows)
    goodput = goodput_bps(net, flows, 10 * MS)
    assert goodput.sum() == pytest.approx(RATE * PAYLOAD / FRAME, rel=0.002)
    assert goodput.min() > 0.9 * goodput.max()
    target_ns = 25_000 + 100_000 * (1 / math.sqrt(max(0.1, 23 / flows)) - 0.1) / (1 / math.sqrt(0.1) - 0.1)
    assert (TRIP + queue.mean() * FULL) / 1000 == pytest.approx(target_ns, rel=0.25)
    assert net.port(net.towards[flows]).dropped == 0


def test_swift__an_incast_of_hundreds_has_windows_below_a_packet_and_loses_nothing_once_it_has_settled() -> (
    None
):
    net = bottleneck(300, TRIP, settings("swift"), buffer_bytes=2_000_000)
    for source in range(300):
        forever(net, source, 300, source * US)
    net.run(60 * MS)
    before = net.port(net.towards[300]).dropped
    assert goodput_bps(net, 300, 20 * MS).sum() == pytest.approx(RATE * PAYLOAD / FRAME, rel=0.01)
    assert net.port(net.towards[300]).dropped == before
    assert queue_samples(net, 90 * MS, 7 * US, 300).max() < 300


@pytest.mark.parametrize("flows", [1, 8, 32])
def test_hpcc__uses_nineteen_twentieths_of_the_link_with_almost_no_queue(flows: int) -> None:
    """The paper's eta is 95 %. Each window grows by 0.08 packets a round, which many flows add up."""
    made = settings("hpcc", base_rtt_ns=25_000)
    link = kit.Link(RATE, TRIP // 4, more={"stamps": True})
    net = kit.single(flows + 1, made, up=kit.Link(RATE, TRIP // 4), down=link)
    for source in range(flows):
        forever(net, source, flows, source * US)
    net.run(10 * MS)
    queue = queue_samples(net, 20 * MS, 3 * US, flows)
    goodput = goodput_bps(net, flows, 10 * MS)
    assert 0.91 < goodput.sum() / (RATE * PAYLOAD / FRAME) < 0.99
    assert queue.mean() < 1 + flows / 8
    assert goodput.min() > 0.8 * goodput.max()


def test_hpcc__a_link_that_becomes_free_is_full_again_within_a_few_round_trips() -> None:
    """One of two flows ends. The other doubles its window as soon as the link says that it has room."""
    made = settings("hpcc", base_rtt_ns=25_000)
    link = kit.Link(RATE, TRIP // 4, more={"stamps": True})
    net = kit.single(3, made, up=kit.Link(RATE, TRIP // 4), down=link)
    forever(net, 0, 2)
    net.flow(1, 2, 1, until_ps=10 * MS)
    net.run(10 * MS + 8 * TRIP)
    [rate] = goodput_bps(net, 1, MS)
    assert rate > 0.92 * RATE * PAYLOAD / FRAME
