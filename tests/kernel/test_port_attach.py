# SPDX-License-Identifier: Apache-2.0
"""bpf/port.bpf.c comes, changes, goes to another process, and leaves other filters alone."""

import pytest

from sluice.dataplane.port import PortProgram
from sluice.dataplane.tagger import Tagger
from sluice.policy.errors import EnvironmentLacking, SluiceError
from tests.kernel.conftest import Pair
from tests.kernel.lab import connect
from tests.kernel.objects import add_filter, ending_program
from tests.kernel.port_frames import OPEN, PORT, Port, frame, ipv4, level_bytes, received


def test_attach__again_keeps_counters_and_a_new_process_takes_over(port: Port, pair: Pair) -> None:
    program, sender, capture = port
    sender.send(frame(ipv4(0, b"1"), 4 << 13))
    received(capture, 1)
    program.attach(PORT, OPEN)
    assert program.counters(PORT)[4].packets == 1
    with PortProgram() as successor:
        assert not successor.is_attached(PORT)
        successor.attach(PORT, OPEN)
        assert successor.is_attached(PORT)
        assert not program.is_attached(PORT)
        sender.send(frame(ipv4(0, b"2"), 4 << 13))
        received(capture, 1)
        assert successor.counters(PORT)[4].packets == 1
        assert program.counters(PORT)[4].packets == 1
    assert "sluice_port" in pair.a.run("tc", "filter", "show", "dev", PORT, "egress"), (
        "the program outlives its process"
    )


def test_attach__a_new_port_with_an_old_name_starts_from_zero(pair: Pair) -> None:
    with PortProgram() as program, pair.a:
        program.attach(PORT, OPEN)
        first = program.counters(PORT)
        pair.a.run("ip", "link", "del", "dev", PORT)
        assert not program.is_attached(PORT)
        connect(pair.a, PORT, pair.b, "eth0")
        assert not program.is_attached(PORT)
        program.attach(PORT, OPEN)
        assert program.is_attached(PORT)
        assert program.counters(PORT)[1] == first[1]
        program.detach(PORT)
        program.detach(PORT)
        assert not program.is_attached(PORT)
        with pytest.raises(KeyError):
            program.counters(PORT)


def test_attach__a_port_in_the_place_of_one_that_left_starts_from_zero(port: Port, pair: Pair) -> None:
    program, sender, capture = port
    for _ in range(2):
        sender.send(frame(ipv4(0, b"1"), 4 << 13))
        received(capture, 1)
        assert (program.counters(PORT)[4].packets, level_bytes(program) > 0) == (1, True)
        with pair.a:
            program.attach("lo", OPEN)
            program.detach(PORT)
            program.attach(PORT, OPEN)
        assert (program.counters(PORT)[4].packets, level_bytes(program)) == (0, 0)
    assert program.counters("lo")[4].packets == 0


def test_attach__leaves_the_filters_of_others_and_their_order(port: Port, pair: Pair) -> None:
    program, sender, capture = port
    pair.a.run(
        "tc", "filter", "add", "dev", PORT, "egress", "prio", "50000", "protocol", "all",
        "u32", "match", "u32", "0", "0", "action", "mirred", "egress", "mirror", "dev", "lo",
    )  # fmt: skip
    program.attach(PORT, OPEN)
    sender.send(frame(ipv4(0, b"both"), 1 << 13))
    received(capture, 1)
    shown = pair.a.run("tc", "-s", "filter", "show", "dev", PORT, "egress")
    assert "mirred" in shown
    assert "Sent 0 bytes" not in shown, "the kernel calls the filter after Sluice's"
    program.detach(PORT)
    assert "mirred" in pair.a.run("tc", "filter", "show", "dev", PORT, "egress")


def test_attach__goes_before_a_filter_that_ends_the_chain(port: Port, pair: Pair) -> None:
    """And before one that has come later, with the same priority."""
    program, sender, capture = port
    with ending_program() as other:
        program.detach(PORT)
        pair.a.run("tc", "qdisc", "replace", "dev", PORT, "clsact")
        add_filter(pair.a, PORT, other, 1)
        program.attach(PORT, OPEN)
        sender.send(frame(ipv4(0, b"1"), 1 << 13))
        received(capture, 1)
        assert program.counters(PORT)[1].packets == 1
        pair.a.run(
            "tc", "filter", "del", "dev", PORT, "egress", "prio", "1", "protocol", "all", "handle", "1", "bpf"
        )
        add_filter(pair.a, PORT, other, 1)
        sender.send(frame(ipv4(0, b"2"), 1 << 13))
        received(capture, 1)
        assert program.counters(PORT)[1].packets == 1, "the newer one ends the chain"
        program.go_first(PORT)
        sender.send(frame(ipv4(0, b"3"), 1 << 13))
        received(capture, 1)
        assert program.counters(PORT)[1].packets == 2
        program.detach(PORT)
        assert "others" in pair.a.run("tc", "filter", "show", "dev", PORT, "egress")


def test_attach__replaces_the_filter_of_an_earlier_version(pair: Pair) -> None:
    """It had another priority."""
    with PortProgram() as program, ending_program() as earlier, pair.a:
        pair.a.run("tc", "qdisc", "add", "dev", PORT, "clsact")
        add_filter(pair.a, PORT, earlier, 49_000, "sluice_port:1")
        program.attach(PORT, OPEN)
        shown = pair.a.run("tc", "filter", "show", "dev", PORT, "egress")
        assert program.is_attached(PORT)
    assert (shown.count("handle"), shown.count("sluice_port:1 ")) == (1, 0)


def test_attach__no_room_before_a_filter_of_another_kind(pair: Pair) -> None:
    first = ("prio", "1", "protocol", "ip", "u32", "match", "u32", "0", "0", "flowid", "1:1")
    with PortProgram() as program, pair.a:
        pair.a.run("tc", "qdisc", "add", "dev", PORT, "clsact")
        pair.a.run("tc", "filter", "add", "dev", PORT, "egress", *first)
        with pytest.raises(EnvironmentLacking, match="tc filter show dev eth0 egress"):
            program.attach(PORT, OPEN)


def test_detach__takes_the_program_of_another_process_and_leaves_the_port_as_it_was(pair: Pair) -> None:
    with pair.a:
        before = pair.a.run("tc", "qdisc", "show", "dev", PORT)
        with PortProgram() as ended:
            ended.attach(PORT, OPEN)
        with PortProgram() as program:
            program.detach(PORT)
            program.detach(PORT)
            program.detach("nowhere0")
        assert pair.a.run("tc", "qdisc", "show", "dev", PORT) == before


def test_detach__leaves_programs_that_are_no_port_program(pair: Pair) -> None:
    with pair.a, Tagger() as tagger, PortProgram() as program:
        tagger.attach(PORT)
        program.detach(PORT)
        assert tagger.is_attached(PORT)


def test_attach__names_the_problem(pair: Pair) -> None:
    with PortProgram() as program, pair.a:
        with pytest.raises(SluiceError, match="no interface nowhere0"):
            program.attach("nowhere0", OPEN)
        pair.a.run("tc", "qdisc", "add", "dev", PORT, "ingress")
        with pytest.raises(SluiceError, match="tc qdisc del dev eth0 ingress"):
            program.attach(PORT, OPEN)
