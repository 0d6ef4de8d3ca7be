# SPDX-License-Identifier: Apache-2.0
"""QJUMP's datagrams on the testbed: when they leave, how long they take, and what is lost."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from experiments.peers import datagrams
from experiments.peers.qjump import NEAR, epoch_ns
from experiments.peers.qjump_testbed import (
    HOSTS,
    MESSAGES,
    SCENARIO,
    VARIANTS,
    latencies_us,
    rest_ns,
    times_ns,
)
from sluice.runtime.process import stop
from sluice.runtime.wait import wait_until


@pytest.mark.parametrize("variant", VARIANTS)
def test_times__of_a_burst_are_close_and_as_many_as_the_factor(variant: str) -> None:
    _, factor, senders = VARIANTS[variant]
    times = times_ns(variant, seed=1, count=4)
    assert HOSTS[0] not in times
    assert sum(map(len, times.values())) == 4 * factor * senders
    for burst in range(4):
        begin = burst * rest_ns()
        of_burst = {
            host: [due for due in all_due if begin <= due <= begin + NEAR * epoch_ns(SCENARIO)]
            for host, all_due in times.items()
        }
        assert sorted(map(len, of_burst.values()))[-senders:] == [factor] * senders


def test_latencies__of_lost_datagrams_are_infinite(tmp_path: Path) -> None:
    (tmp_path / MESSAGES).write_text(json.dumps({"sent": 4, "latency_us": [30.0, 10.0]}))
    assert latencies_us(tmp_path).tolist() == [10.0, 30.0, np.inf, np.inf]


def test_datagrams__leave_at_their_times_and_arrive_with_their_latency(tmp_path: Path) -> None:
    begin, log, sender_log = tmp_path / "begin", tmp_path / "log", tmp_path / "sender"
    second, late, far = 300_000_000, -(10**12), 10**11
    words = ["send", "127.0.0.1", "1", str(begin), str(far), str(late), "0", str(second)]
    program = [sys.executable, datagrams.__file__]
    with log.open("w") as out, sender_log.open("w") as sent:
        receiver = subprocess.Popen([*program, "receive"], stdout=out)
        sender = subprocess.Popen([*program, *words], stdout=sent)
    try:
        wait_until(lambda: all("ready" in each.read_text() for each in (log, sender_log)), "both are ready")
        begin_ns = time.time_ns()
        begin.with_suffix(".new").write_text(str(begin_ns))
        begin.with_suffix(".new").rename(begin)
        assert sender.wait(timeout=30) == 0
        assert time.time_ns() >= begin_ns + second
        wait_until(lambda: log.read_text().count("\n") == 3, "two datagrams arrived")
    finally:
        stop(sender)
        stop(receiver)
    assert sender_log.read_text().split() == ["ready", "2"], "the first one was too late"
    assert all(0 < int(line) < 10**9 for line in log.read_text().split()[1:])
