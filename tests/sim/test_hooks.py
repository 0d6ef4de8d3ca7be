# SPDX-License-Identifier: Apache-2.0
"""A congestion control from one file: the same answers as a law of the tree, and windows and rates that are its own."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sluice.policy.errors import FieldError, SluiceError
from sluice.runs.bundle import read_flows
from sluice.runs.files import scenario_with
from sluice.runs.simulator_run import run_on_simulator
from sluice.runtime import control_files
from sluice.simulator import _fabric as core
from sluice.simulator import build
from tests.sim import kit, runs
from tests.sim.bottleneck import RATE, TRIP, bottleneck, forever, goodput_bps, queue_samples
from tests.sim.kit import FRAME, MS, PAYLOAD, US, S

pytestmark = pytest.mark.usefixtures("no_plugin_stays")

Compile = Callable[..., core.TransportSettings]

OWN = """\
#define SL_CONTROL own
#define SL_ECHO SL_ECHO_NONE
#define SL_PARAMETERS(P)                                                          \\
	P(start_milli, 7000, "Window at the start, in thousandths of a packet.")   \\
	P(loss_milli, 5000, "Window after a loss.")                                \\
	P(timeout_milli, 3000, "Window after a timeout.")                          \\
	P(bytes_per_s, 0, "Pacing rate.")
#include "hooks.h"

static void start(struct sl_sender *s)
{
	s->cwnd_q16 = SL_Q16_ONE * s->parameters->start_milli / 1000;
	s->pacing_bytes_per_s = s->parameters->bytes_per_s;
}
static void ack(struct sl_sender *s, const struct sl_ack *a) {}
static void loss(struct sl_sender *s)
{
	s->cwnd_q16 = SL_Q16_ONE * s->parameters->loss_milli / 1000;
}
static void timeout(struct sl_sender *s)
{
	s->cwnd_q16 = SL_Q16_ONE * s->parameters->timeout_milli / 1000;
}
#define SL_ON_START start
#define SL_ON_ACK ack
#define SL_ON_LOSS loss
#define SL_ON_TIMEOUT timeout
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("controls")


@pytest.fixture
def compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Compile:
    """Compile the text of a control, and return settings that use it. Parameters that are not given have defaults."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))

    def make(text: str, values: dict[str, int] | None = None, **settings: object) -> core.TransportSettings:
        path = folder / "control.h"
        path.write_text(text)
        control = control_files.read(path)
        made = kit.transport(**settings)
        numbers = [(values or {}).get(p.name, p.default) for p in control.parameters]
        made.load_control(str(build.control_library(control)), numbers)
        return made

    return make


def windows(net: kit.Net) -> list[int]:
    return [int(cwnd) for cwnd in net.fabric.senders()["cwnd"]]


@pytest.mark.parametrize("name", ["dctcp", "ucp", "d2tcp", "mcp"])
def test_a_law_of_the_tree_is_the_same_from_a_file(compiled: Compile, name: str) -> None:
    """Flows with and without sizes and deadlines share a link, with marks and drops."""
    text = f'#define SL_CONTROL same\n#include "hooks.h"\n#define SL_ON_WINDOW(s) sl_control_{name}((s)->window)\n'

    def results(settings: core.TransportSettings) -> kit.Columns:
        settings.echo, settings.recovers_as_linux = core.Echo.exact, True
        net = bottleneck(5, TRIP, settings, buffer_bytes=60 * FRAME, more={"mark_bytes": 20 * FRAME})
        rng = np.random.default_rng(7)
        for number in range(60):
            deadline = (number % 3 == 1) * (number + 10) * MS
            size_bytes, start_ps = int(rng.integers(1, 10**6)), number * 300 * US
            net.flow(number % 5, 5, size_bytes, start_ps, deadline_ps=deadline, size_known=number % 2)
        done = net.finish()
        assert net.port(net.towards[5]).marked
        assert net.port(net.towards[5]).dropped
        return done

    ours, from_file = results(kit.transport(control=core.Control[name])), results(compiled(text))
    for column, values in ours.items():
        np.testing.assert_array_equal(values, from_file[column], column)


def test_a_window_is_what_the_file_says(compiled: Compile) -> None:
    net = bottleneck(1, TRIP, compiled(OWN))
    forever(net, 0, 1)
    net.run(2 * MS)
    [rate_bps] = goodput_bps(net, 1, 10 * MS)
    assert windows(net) == [7]
    assert rate_bps == pytest.approx(7 * PAYLOAD * 8 * S / (TRIP + 2 * US), rel=0.03)


def test_a_paced_flow_leaves_no_queue(compiled: Compile) -> None:
    """Two flows at two fifths of the link each. Unpaced, their windows of 100 packets would queue."""
    rate = RATE * 2 // 5 * PAYLOAD // FRAME // 8
    net = bottleneck(2, TRIP, compiled(OWN, {"start_milli": 100_000, "bytes_per_s": rate}))
    for source in range(2):
        forever(net, source, 2, source)
    net.run(2 * MS)
    assert queue_samples(net, 6 * MS, 7 * US, 2).max() <= 2
    assert goodput_bps(net, 2, 10 * MS) == pytest.approx([rate * 8] * 2, rel=0.005)


def test_a_window_below_a_packet_sends_one_in_several_round_trips(compiled: Compile) -> None:
    net = bottleneck(1, TRIP, compiled(OWN, {"start_milli": 250}))
    forever(net, 0, 1)
    net.run(5 * MS)
    [rate_bps] = goodput_bps(net, 1, 100 * MS)
    trip = int(net.fabric.senders()["rtt_us"][0]) * US
    assert windows(net) == [1]
    assert rate_bps == pytest.approx(PAYLOAD * 8 * S / (4 * trip), rel=0.02)


def test_a_loss_and_a_timeout_have_hooks(compiled: Compile) -> None:
    """100 packets into a buffer of 30. Then no packet comes through, so a timeout follows."""
    net = bottleneck(1, TRIP, compiled(OWN, {"start_milli": 100_000}), buffer_bytes=30 * FRAME)
    forever(net, 0, 1)
    net.run(MS // 2)
    assert net.port(net.towards[1]).dropped
    assert windows(net) == [5]
    none_passes = kit.Link(RATE, TRIP // 4, buffer_bytes=1)
    net.fabric.change_port(net.towards[1], none_passes.settings(), none_passes.discipline)
    net.run(30 * MS)
    assert windows(net) == [3]


def test_without_hooks_a_loss_halves_the_window_and_a_timeout_leaves_one_packet(compiled: Compile) -> None:
    text = OWN.replace("#define SL_ON_LOSS loss\n#define SL_ON_TIMEOUT timeout\n", "")
    text = re.sub("static void (loss|timeout)", r"__attribute__((unused)) static void \1", text)
    net = bottleneck(1, TRIP, compiled(text, {"start_milli": 100_000}), buffer_bytes=30 * FRAME)
    forever(net, 0, 1)
    net.run(MS // 2)
    assert windows(net) == [50]


STATE = """\
#define SL_CONTROL counts
#define SL_STATE struct seen
#include "hooks.h"

struct seen {
	sl_u64 acked, marked, limited, rounds, first_ns;
};
static void start(struct sl_sender *s)
{
	s->own->first_ns = s->now_ns;
}
static void window(struct sl_sender *s)
{
	s->own->rounds++;
	s->window->urgency_q16 = (sl_u32)s->own->acked;
	s->window->precedence_q16 = (sl_u32)s->own->marked;
	s->window->rate_bytes_per_s = s->now_ns - s->own->first_ns;
}
static void ack(struct sl_sender *s, const struct sl_ack *a)
{
	s->own->acked += a->acked;
	s->own->marked += a->marked;
	s->cwnd_q16 = 90 * SL_Q16_ONE;
}
#define SL_ON_START start
#define SL_ON_WINDOW window
#define SL_ON_ACK ack
"""


def test_state_belongs_to_the_connection_and_marks_are_counted(compiled: Compile) -> None:
    """Windows of 90 packets in each of two flows exceed the path, which holds 84, so most packets are marked."""
    net = bottleneck(2, TRIP, compiled(STATE, echo=core.Echo.exact), more={"mark_bytes": 5 * FRAME})
    for source in range(2):
        forever(net, source, 2, source * US)
    net.run(20 * MS)
    seen = net.fabric.senders()
    order = np.argsort(seen["id"])
    acked, marked = seen["urgency_q16"][order], seen["precedence_q16"][order]
    packets = seen["acked_bytes"][order] // PAYLOAD
    assert all(packets - 200 < acked)
    assert all(acked <= packets + 90)
    assert all(marked > acked // 2)
    assert all(marked <= acked)
    assert all(
        abs(seen["rate_bytes_per_s"][order].astype(int) - 20_000_000) < 1_000_000
    )  # ns since the start


HOPS = """\
#define SL_CONTROL hops
#define SL_TELEMETRY 1
#define SL_STATE struct seen
#include "hooks.h"

struct seen {
	struct sl_hop last;
	sl_u64 hops, rounds;
};
static void window(struct sl_sender *s)
{
	const struct seen *own = s->own;

	s->window->urgency_q16 = (sl_u32)own->last.sent_bytes;
	s->window->precedence_q16 = (sl_u32)own->last.queue_bytes;
	s->window->penalty_q20 = (sl_u32)(own->hops << 16 | own->rounds);
	s->window->rate_bytes_per_s = own->last.bytes_per_s;
}
static void ack(struct sl_sender *s, const struct sl_ack *a)
{
	s->own->hops = a->hops;
	s->own->rounds += a->round;
	s->own->last = a->hop[a->hops - 1];
	s->cwnd_q16 = 120 * SL_Q16_ONE;
}
#define SL_ON_WINDOW window
#define SL_ON_ACK ack
"""


def test_telemetry_is_what_each_port_of_a_switch_says(compiled: Compile) -> None:
    """A window of 120 packets on a path that holds 84: the rest waits at the last of the path's two ports."""
    settings = compiled(HOPS)
    links = [
        kit.Link(100 * kit.GBIT, TRIP // 6),
        *[kit.Link(r, TRIP // 6, more={"stamps": True}) for r in (40 * kit.GBIT, RATE)],
    ]
    net = kit.chain(links, settings)
    forever(net, 0, 1)
    net.run(20 * MS)
    seen = {name: int(column[0]) for name, column in net.fabric.senders().items()}
    port = net.port(net.towards[1])
    assert seen["rate_bytes_per_s"] == RATE // 8
    assert seen["penalty_q20"] >> 16 == 2
    assert seen["precedence_q16"] == pytest.approx(port.waiting_bytes, abs=2 * FRAME)
    assert port.waiting_bytes > 25 * FRAME
    assert 0 < port.bytes - seen["urgency_q16"] < 400 * FRAME
    assert seen["urgency_q16"] % FRAME == 0
    trips = 20 * MS / (seen["rtt_us"] * US)
    assert (seen["penalty_q20"] & 0xFFFF) == pytest.approx(trips, rel=0.15)


def test_a_wrong_file_is_named_with_the_compilers_words(compiled: Compile) -> None:
    with pytest.raises(SluiceError, match=r"control .*control\.h does not compile:(.|\n)*nonsense") as error:
        compiled(OWN.replace("s->pacing_bytes_per_s", "s->nonsense"))
    assert "control.h:13" in str(error.value)


def test_the_same_text_is_compiled_once_and_other_parameters_are_refused(
    compiled: Compile, folder: Path
) -> None:
    text = OWN.replace("SL_CONTROL own", "SL_CONTROL once")
    compiled(text)
    [library] = folder.rglob("once-*.so")
    compiled(text, {"start_milli": 1})
    assert [*folder.rglob("once-*.so")] == [library]
    compiled(text.replace("/ 1000", "/ 1001"))
    assert len([*folder.rglob("once-*.so")]) == 2
    with pytest.raises(ValueError, match="no control of this version with 3 parameters"):
        kit.transport().load_control(str(library), [1, 2, 3])
    with pytest.raises(ValueError, match="has no function sl_transport"):
        kit.transport().load_transport(str(library), [])
    with pytest.raises(ValueError, match="cannot open shared object"):
        kit.transport().load_control(str(folder / "none.so"), [])


def test_flows_with_other_settings_share_a_link(compiled: Compile) -> None:
    """A flow whose file holds two packets in flight, beside one of DCTCP. Numbers that no one has added are refused."""
    dctcp = kit.transport(control=core.Control.dctcp, echo=core.Echo.exact)
    net = bottleneck(2, TRIP, dctcp, more={"mark_bytes": 20 * FRAME})
    number = net.fabric.add_transport(compiled(OWN, {"start_milli": 2000}))
    forever(net, 0, 2)
    forever(net, 1, 2, transport=number)
    net.run(5 * MS)
    order = np.argsort(net.fabric.senders()["id"])
    assert net.fabric.senders()["cwnd"][order][1] == 2
    rates = goodput_bps(net, 2, 10 * MS)
    assert rates[0] > 0.9 * RATE
    assert rates[1] < 0.03 * RATE
    with pytest.raises(ValueError, match="transport must be 0 or a number that add_transport returned"):
        net.flow(0, 2, 1000, net.fabric.now_ps, transport=number + 1)
    with pytest.raises(ValueError, match="payload_bytes must stay as it is"):
        net.fabric.add_transport(kit.transport(payload_bytes=1000))


MIXED = {
    "name": "mixed",
    "seed": 3,
    "fabric": {"topology": "single", "hosts": 5, "host_rate": "1Gbit", "host_delay": "5us"},
    "scheme": {"name": "dctcp"},
    "workload": {
        "mix": [
            {"bytes": "1MB", "share": 0.5},
            {"bytes": "1MB", "share": 0.5, "from": ["h2", "h3"], "control": "reno"},
        ],
        "pattern": "many-to-one",
        "to": "h1",
        "load": 0.8,
        "flows": 60,
    },
}


def test_parts_of_a_workload_have_controls_of_their_own() -> None:
    """Reno takes a mark for a loss, so its flows are slower beside DCTCP's. Without the key all are as fast."""
    apart = runs.run(MIXED)
    named = apart.flows["control"]
    assert set(named.tolist()) == {"", "reno"}
    assert set(apart.flows["src"][named == "reno"].tolist()) == {1, 2}
    alike = runs.run(
        {**MIXED, "scheme": {"name": "dctcp"}}, workload={"mix": [{"bytes": "1MB", "share": 1.0}]}
    )
    assert set(alike.flows["control"].tolist()) == {""}
    reno, dctcp = (apart.flows["fct_ps"][named == name].mean() for name in ("reno", ""))
    assert reno > dctcp
    with pytest.raises(
        FieldError, match=r"workload.mix\[0\].control: must be one of .*dctcp.*, not \"pfabric\""
    ):
        runs.run(MIXED, workload={"mix": [{"bytes": "1MB", "share": 1.0, "control": "pfabric"}]})


def test_listed_flows_have_controls_of_their_own_and_records_say_them(tmp_path: Path) -> None:
    each = {"to": "h1", "bytes": "200KB"}
    listed = [{**each, "from": "h2", "control": "cubic"}, {**each, "from": "h3"}]
    resolved = scenario_with({**MIXED, "workload": {"flow": listed}})
    run_on_simulator(resolved, tmp_path / "out")
    assert {row["src"]: row["congestion_control"] for row in read_flows(tmp_path / "out")} == {
        "h2": "cubic",
        "h3": "sluice_dctcp",
    }
