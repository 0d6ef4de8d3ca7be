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


def called(name: str, function: str, arguments: str, folder: Path) -> Callable[..., int]:
    """Return a function of a file, with its default parameters first. `arguments`: declarations of the others."""
    library = folder / f"{function}.so"
    names = ", ".join(argument.split()[-1] for argument in arguments.split(","))
    source = (
        f'#include "{FOLDER}/{name}.h"\n#include "hooks_table.h"\n'
        f"sl_u64 called({arguments});\nsl_u64 called({arguments})\n{{\n"
        "#define SL_VALUE(name, value, help) .name = value,\n"
        "\tstatic const struct sl_parameters p = {SL_PARAMETERS(SL_VALUE)};\n"
        f"\treturn {function}(&p, {names});\n}}\n"
    )
    flags = ["-shared", "-fPIC", f"-I{build.LAWS}", "-fsanitize=undefined", "-fno-sanitize-recover"]
    subprocess.run(["cc", *flags, "-x", "c", "-", "-o", str(library)], input=source, text=True, check=True)
    call = ctypes.CDLL(str(library)).called
    call.argtypes, call.restype = [ctypes.c_uint64] * len(names.split(",")), ctypes.c_uint64
    return lambda *values: int(call(*values))


def test_l2dct__the_weight_falls_with_what_was_sent(tmp_path: Path) -> None:
    weight_milli = called("l2dct", "l2dct_weight_milli", "sl_u64 sent_bytes", tmp_path)
    assert [weight_milli(sent) for sent in (0, 204_800, 1_048_576, 10**12)] == [2500, 2500, 125, 125]
    for sent in range(204_800, 1_048_576, 100_000):
        exact = 2500 - 2375 * (sent - 204_800) / (1_048_576 - 204_800)
        assert weight_milli(sent) == pytest.approx(exact, abs=1)


def test_l2dct__a_short_flow_beside_long_ones_ends_sooner_than_under_dctcp_and_they_fill_the_link() -> None:
    def run(made: core.TransportSettings) -> tuple[int, float]:
        made.echo = core.Echo.exact
        net = bottleneck(4, 100 * US, made, buffer_bytes=2_000_000, more={"mark_bytes": 65 * FRAME})
        for source in range(3):
            forever(net, source, 4, source * US)
        net.run(50 * MS)
        goodput = goodput_bps(net, 3, 10 * MS)
        assert net.port(net.towards[4]).marked > 100
        net.flow(3, 4, 600_000, net.fabric.now_ps)
        net.run(200 * MS)
        [fct_ps] = net.results()["fct_ps"]
        assert net.port(net.towards[4]).dropped == 0
        return int(fct_ps), float(goodput.sum())

    (ours, full), (dctcp, _) = run(settings("l2dct")), run(kit.transport(control=core.Control.dctcp))
    assert full > 0.95 * RATE * PAYLOAD / FRAME
    assert ours < 0.8 * dctcp


@pytest.mark.parametrize("flows", [1, 4, 16])
def test_timely__fills_the_link_between_its_two_round_trips(flows: int) -> None:
    """The hosts' links have ten times the rate. The first rates fill half of the shared link, or more."""
    made = settings("timely", start_milli=max(50 // flows, 5))
    net = bottleneck(flows, TRIP, made, buffer_bytes=4_000_000)
    for source in range(flows):
        forever(net, source, flows, source * US)
    net.run(60 * MS)
    before = net.port(net.towards[flows]).dropped
    queue = queue_samples(net, 90 * MS, 7 * US, flows)
    goodput = goodput_bps(net, flows, 20 * MS)
    assert goodput.sum() > 0.9 * RATE * PAYLOAD / FRAME
    assert (TRIP + queue.mean() * FULL) / 1000 < 500_000, "the mean round trip is below the higher one"
    assert net.port(net.towards[flows]).dropped == before


def test_timely__leaves_a_link_that_another_flow_takes_and_takes_it_back() -> None:
    net = bottleneck(2, TRIP, settings("timely", start_milli=50), buffer_bytes=4_000_000)
    forever(net, 0, 2)
    net.run(20 * MS)
    net.flow(1, 2, 1, net.fabric.now_ps, until_ps=120 * MS)
    net.run(80 * MS)
    [first, second] = goodput_bps(net, 2, 30 * MS)
    assert 0.2 < first / (first + second) < 0.8
    net.run(160 * MS)
    [alone] = goodput_bps(net, 1, 10 * MS)
    assert alone > 0.9 * RATE * PAYLOAD / FRAME
