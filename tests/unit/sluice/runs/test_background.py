# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from sluice.runs.background import Interval, Load, client_argv, parse_report, server_argv

REPORT = """\
20261121140920,127.0.0.1,37536,127.0.0.1,5001,2,0.0-1.0,1310780,10486240
20261121140921,127.0.0.1,37536,127.0.0.1,5001,2,1.0-2.0,1310720,10485760
20261121140921,127.0.0.1,37536,127.0.0.1,5001,2,0.0-2.0,2752572,11007756
20261121140922,127.0.0.1,375"""


def test_parse_report__without_the_sum_and_the_torn_line() -> None:
    assert parse_report(REPORT) == [Interval(0.0, 1.0, 1310780), Interval(1.0, 2.0, 1310720)]
    assert parse_report(REPORT)[1].rate_bps == 10485760
    assert parse_report("") == []


def test_commands__both_ends_select_the_control_and_the_rate_is_in_bits() -> None:
    load = Load("h2", "h1", "10.0.0.1", "sluice_dctcp", rate_bps=5_000_000, port=5101)
    for argv in (client_argv(load), server_argv(load)):
        assert argv[argv.index("-Z") + 1] == "sluice_dctcp"
        assert argv[argv.index("-p") + 1] == "5101"
    client = client_argv(load)
    assert client[client.index("-b") + 1] == "5000000"
    assert client[client.index("-c") + 1] == "10.0.0.1"
    assert "-b" not in client_argv(Load("h2", "h1", "10.0.0.1", None))
