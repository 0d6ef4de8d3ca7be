# SPDX-License-Identifier: Apache-2.0

from typing import Any

import pytest

from sluice.policy.errors import FieldError, visible
from sluice.policy.figures.metrics import summarise, summarise_watched
from sluice.policy.schema.desired import Policy, host_queue_map
from sluice.policy.wire.access import Token
from sluice.policy.wire.agents import AgentSettings, HostHeartbeat, heartbeat_from
from sluice.policy.wire.records import FlowRecord, size_class
from tests.kit.heartbeats import document, host_heartbeat
from tests.unit.webui.records import record


def flow_record(**changes: Any) -> FlowRecord:
    return FlowRecord.from_document(record("run/1", **{"ideal_us": 1000.0, **changes}))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"id": ""}, "id"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": True}, "bytes"),
        ({"fct_us": float("nan")}, "fct_us"),
        ({"fct_us": float("inf")}, "fct_us"),
        ({"status": "unfinished"}, "fct_us"),
        ({"met": 1}, "met"),
        ({"reason": "x" * 201}, "reason"),
        ({"ideal_us": None}, "ideal_us"),
        ({"retransmissions": None}, "retransmissions"),
        ({"source": "seen"}, "source"),
        ({"source": "watched", "src_port": 0}, "src_port"),
        ({"src": "fd09::1 "}, "src"),
    ],
)
def test_from_document__names_the_bad_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as caught:
        flow_record(**change)
    assert caught.value.field == field


WATCHED = {
    "source": "watched",
    "ideal_us": None,
    "src": "h1",
    "dst": "fd09::2",
    "src_port": 40_000,
    "dst_port": 80,
}


def test_from_document__a_watched_flow_has_addresses_and_no_ideal() -> None:
    watched = flow_record(**WATCHED, lasted_us=9e6, timeouts=1, srtt_us=215.0)
    assert FlowRecord.from_document(watched.to_document()) == watched
    assert watched.slowdown is None


def test_size_class__limits_belong_to_the_class_below() -> None:
    assert size_class(100_000) == "small"
    assert size_class(100_001) == "medium"
    assert size_class(10_000_001) == "large"
    assert size_class(10_001, scale=0.1) == "medium"


def test_summarise__counts_unfinished_flows_and_misses_and_drops_nothing() -> None:
    late = {"deadline_us": 1000.0, "met": False}
    records = [
        flow_record(),
        flow_record(id="2", fct_us=4000.0, **late),
        flow_record(id="3", deadline_us=9000.0, met=True),
        flow_record(id="4", fct_us=None, status="unfinished", **late),
    ]
    summary = summarise(records)
    assert summary["fct_us"]["small"]["n"] == 3
    assert summary["slowdown"]["all"]["mean"] == pytest.approx((2 + 4 + 2) / 3)
    assert summary["deadlines"] == {"n": 3, "missed": 2, "miss_ratio": pytest.approx(2 / 3)}
    assert summary["unfinished"] == 1
    assert summary["fct_us"]["large"]["mean"] is None


def test_summarise__watched_flows_are_told_apart() -> None:
    missed = {"deadline_us": 1000.0, "met": False}
    watched = [
        flow_record(id="w/1", **WATCHED, **missed, retransmissions=2),
        flow_record(id="w/2", **WATCHED),
    ]
    assert summarise([flow_record(), *watched]) == summarise([flow_record()])
    figures = summarise_watched([flow_record(), *watched])
    assert (figures.pop("fct_us")["all"]["n"], figures.pop("slowdown")["all"]["n"]) == (2, 0)
    assert figures == {
        "n": 2,
        "bytes": 20_000,
        "retransmissions": 2,
        "unfinished": 0,
        "deadlines": 1,
        "missed": 1,
    }


# ── What agents are told ───────────────────────────────────────────────────────────────────────


def settings(*, acts: bool = True, **fields: object) -> AgentSettings:
    return AgentSettings.of(3, Policy.from_document({"scheme": "pias", **fields}), acts=acts)


def test_of__a_host_on_which_the_policy_does_not_act_keeps_its_own_control() -> None:
    host, ports = settings(acts=False).host, settings(acts_at=["s1:2"]).ports
    assert host is not None
    assert ports is not None
    assert (host.congestion_control, host.acts) == (None, False)
    assert ports.acts_at == ("s1:2",)


def test_of__hosts_get_the_queues_of_their_own_link_from_the_policys_thresholds() -> None:
    host = settings().host
    assert host is not None
    assert host.queue_of_tag == host_queue_map(Policy.from_document({"scheme": "pias"}))
    assert len(set(host.queue_of_tag)) > 1


@pytest.mark.parametrize("fields", [{"host_queues": False}, {"acts": False}], ids=["switched off", "watches"])
def test_of__a_hosts_link_stays_one_queue(fields: dict[str, Any]) -> None:
    host = settings(**fields).host
    assert host is not None
    assert host.queue_of_tag == ()


TOKEN = Token("web1", "host", "a-secret-of-24-characters", 1_800_000_000, "ab" * 32)


def test_text__is_one_word_that_parse_reads() -> None:
    assert TOKEN.text().startswith("sluice-enrol-")
    assert len(TOKEN.text().split()) == 1
    assert Token.parse(f"  {TOKEN.text()}\n") == TOKEN


@pytest.mark.parametrize(
    "text",
    ["", "sluice-enrol-", "sluice-enrol-!!", TOKEN.text()[:-9], TOKEN.text()[8:], "sluice-enrol-W10", "é"],
)
def test_parse__says_what_is_wrong_and_never_shows_the_secret(text: str) -> None:
    with pytest.raises(FieldError, match="--enrol: is not an enrolment token: copy all of it") as caught:
        Token.parse(text)
    assert TOKEN.secret not in str(caught.value)
    assert len(text) < 20 or text[20:] not in str(caught.value)


@pytest.mark.parametrize(
    "control", ["\n", "\r\n", "\x1b", "\x07", "\x7f", "\x9b", "\u2028", "\u202e", "\u2066"]
)
def test_visible__no_character_ends_a_line_or_controls_a_terminal(control: str) -> None:
    assert visible(f"a{control}b") == "a b"


def test_what_an_agent_says_is_one_line() -> None:
    said = {"fallback_reason": "\x1b]0;title\x07no\nBPF", "version": "1\n2"}
    beat = heartbeat_from({**document(host_heartbeat()), **said})
    assert isinstance(beat, HostHeartbeat)
    assert (beat.fallback_reason, beat.version) == (" ]0;title no BPF", "1 2")
    unfinished = record("f", status="unfinished", fct_us=None, reason="\x1b[2Jreset")
    assert FlowRecord.from_document(unfinished).reason == " [2Jreset"
