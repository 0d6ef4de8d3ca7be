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


LINK, STEP, LARGE_STEP = 1_250_000_000, 5_000_000, 50_000_000
"""Bytes/s: of a link of 10 Gb/s, and what DCQCN's additive and hyper increases add."""
ALPHA = 255 / 256
Begin = Callable[..., Callable[[float, int, int], tuple[int, int, float]]]


@pytest.fixture
def dcqcn(tmp_path: Path) -> Begin:
    """Return a function that begins a connection with these parameters. It returns a function of an ACK's time in us,
    its packets of 1,000 bytes, and those that were marked; which returns the rate, its target, and alpha."""

    def begin(**values: int) -> Callable[[float, int, int], tuple[int, int, float]]:
        library = tmp_path / f"dcqcn{len(list(tmp_path.iterdir()))}.so"
        source = (
            f'#include "{FOLDER}/dcqcn.h"\n#include "hooks_table.h"\n'
            "#define SL_VALUE(name, value, help) .name = value,\n"
            "static struct sl_parameters p = {SL_PARAMETERS(SL_VALUE)};\n"
            "static struct dcqcn_state own;\n"
            f"static struct sl_sender s = {{.mss_bytes = 1000, .link_bytes_per_s = {LINK}, .own = &own,\n"
            "\t.parameters = &p};\nsl_u64 answer[4];\nvoid ack(sl_u64 now_ns, sl_u32 acked, sl_u32 marked);\n"
            "void ack(sl_u64 now_ns, sl_u32 acked, sl_u32 marked)\n{\n"
            "\tstruct sl_ack one = {.acked = acked, .marked = marked};\n\ts.now_ns = now_ns;\n"
            "\tif (acked)\n\t\tdcqcn_ack(&s, &one);\n\telse\n\t\tdcqcn_start(&s);\n"
            "\tanswer[0] = own.rate;\n\tanswer[1] = own.target;\n\tanswer[2] = own.alpha_q20;\n"
            "\tanswer[3] = s.pacing_bytes_per_s;\n}\n"
            "__attribute__((constructor)) static void given(void)\n{\n"
            + "".join(f"\tp.{name} = {value};\n" for name, value in values.items())
            + "}\n"
        )
        flags = ["-shared", "-fPIC", f"-I{build.LAWS}", "-fsanitize=undefined", "-fno-sanitize-recover"]
        subprocess.run(
            ["cc", *flags, "-x", "c", "-", "-o", str(library)], input=source, text=True, check=True
        )
        loaded = ctypes.CDLL(str(library))
        loaded.ack.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
        answer = (ctypes.c_uint64 * 4).in_dll(loaded, "answer")

        def ack(now_us: float, acked: int, marked: int) -> tuple[int, int, float]:
            loaded.ack(round(1000 * now_us), acked, marked)
            rate, target, alpha_q20, pacing = answer
            assert pacing == rate
            return int(rate), int(target), int(alpha_q20) / 2**20

        ack(0, 0, 0)
        return ack

    return begin


def test_dcqcn__one_report_in_50_us_cuts_by_half_of_alpha(dcqcn: Begin) -> None:
    ack = dcqcn()
    assert ack(90, 1, 0) == (LINK, LINK, 1), "alpha does not fall before the first report"
    assert ack(100, 1, 1) == (LINK // 2, LINK, 1)
    assert ack(149, 1, 1) == (LINK // 2, LINK, 1)
    assert ack(150, 1, 1) == (LINK // 4, LINK // 2, 1)
    # Alpha falls each 55 us, and after 55 us the rate has gone half of its way back.
    rate, target, alpha = ack(206, 1, 1)
    back = (LINK // 4 + LINK // 2) / 2
    assert (rate, target) == pytest.approx((back * (1 - ALPHA / 2), back), abs=2)
    assert alpha == pytest.approx(ALPHA**2 + 1 / 256, abs=1e-5)
    *_, alpha = ack(206 + 55 * 3, 1, 0)
    assert alpha == pytest.approx((ALPHA**2 + 1 / 256) * ALPHA**3, abs=1e-5)


def test_dcqcn__recovers_by_time_then_adds(dcqcn: Begin) -> None:
    """Five steps go half of the way to the target. From the sixth on, the target rises, but the bytes have not expired
    once, so it rises by the small step."""
    ack = dcqcn()
    ack(100, 1, 1)
    ack(150, 1, 1)
    rate, target = LINK / 4, LINK / 2
    for step in range(1, 9):
        target += STEP if step > 5 else 0
        rate = (rate + target) / 2
        found = ack(150 + 55 * step, 1, 0)
        assert found[:2] == pytest.approx((rate, target), abs=8), step


def test_dcqcn__adds_the_large_step_once_time_and_bytes_have_expired_more_than_five_times(
    dcqcn: Begin,
) -> None:
    ack = dcqcn(increase_bytes=1000)
    ack(100, 1, 1)
    ack(150, 1, 1)
    rate, target = 3 * LINK / 8, 3 * LINK / 4  # the bytes have expired before each report
    times = rounds = 0
    for step in range(1, 8):  # in each, first the timer and then the bytes expire
        for count in ("times", "rounds"):
            if min(times, rounds) > 5:
                target += LARGE_STEP
            elif max(times, rounds) >= 5:
                target += STEP
            rate = (rate + target) / 2
            times, rounds = times + (count == "times"), rounds + (count == "rounds")
        found = ack(150 + 55 * step, 1, 0)
        assert found[:2] == pytest.approx((rate, target), abs=20), step
    assert target == 3 * LINK / 4 + 3 * STEP + 2 * LARGE_STEP


def test_dcqcn__by_the_clock_of_a_card(dcqcn: Begin) -> None:
    """The first marks set a clock. The rate falls at its ticks if marks came, and keeps its target until it rises."""
    ack = dcqcn(by_clock=1, report_us=4, alpha_us=1, increase_us=300, increase_bytes=0, fast_steps=1)
    assert ack(10, 1, 1) == (LINK, LINK, 1)
    assert ack(13.9, 1, 0)[2] == pytest.approx(ALPHA**3, abs=1e-5)
    rate, target, alpha = ack(14, 1, 1)
    assert alpha == pytest.approx(ALPHA**4, abs=1e-5)
    assert (rate, target) == pytest.approx((LINK * (1 - ALPHA**4 / 2), LINK), rel=1e-5)
    rate, target, alpha = ack(18, 1, 0)
    assert alpha == pytest.approx((ALPHA**5 + 1 / 256) * ALPHA**3, abs=1e-5)
    assert (rate, target) == pytest.approx((LINK * (1 - ALPHA**4 / 2) * (1 - alpha / 2), LINK), rel=1e-5)
    steps = [ack(18 + 300 * step, 1, 0)[:2] for step in (1, 2, 3)]
    for step, (found, target) in enumerate(steps, start=1):
        rate = (rate + LINK) // 2
        assert (found, target) == pytest.approx((rate, LINK), abs=4), step


@pytest.mark.parametrize("flows", [2, 8])
def test_dcqcn__flows_fill_the_link_and_share_it(flows: int) -> None:
    made = settings("dcqcn")
    made.echo = core.Echo.exact
    ramp = {"mark_bytes": 40_000, "mark_max_bytes": 160_000, "mark_most_q32": round(0.2 * 2**32)}
    net = bottleneck(flows, TRIP, made, buffer_bytes=10**9, more=ramp)
    for source in range(flows):
        forever(net, source, flows, source * US)
    net.run(100 * MS)
    goodput = goodput_bps(net, flows, 100 * MS)
    assert goodput.sum() > 0.9 * RATE * PAYLOAD / FRAME
    assert goodput.min() > 0.5 * goodput.max()
