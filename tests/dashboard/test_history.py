"""History: a ring of fixed size that survives restarts, keeps gaps as gaps, and is filled by few requests."""

import asyncio
import json
import math
import os
from pathlib import Path

import pytest

from hanabi import Message
from hanabi.admin.brokers import BrokerSummary
from hanabi.aio import Producer, PullConsumer
from hanabi.dashboard.cluster.board import BrokerRow
from hanabi.dashboard.history import series
from hanabi.dashboard.history.curves import Curve, Line, Shown
from hanabi.dashboard.history.ring import Ring
from hanabi.dashboard.history.sampler import broker_values
from hanabi.dashboard.history.series import GroupLag, chosen, group_lags, grown
from hanabi.dashboard.history.tiers import TIERS, means, packed, unpacked
from hanabi.dashboard.render.sparkline import path
from hanabi.dashboard.security.roles import Role
from hanabi.message import MessageQueue
from hanabi.testing.clock import ManualClock
from hanabi.testing.cluster import running_cluster
from hanabi.testing.proxied import proxied_cluster
from hanabi.wire.bodies.stats import ConsumeStats, ConsumeStatsList, OffsetWrapper
from tests.dashboard.browsing import dashboard

START_S = 1_700_000_400  # a whole number of ten minutes


async def opened(path: Path, series_max: int = 8) -> Ring:
    ring = Ring(path, series_max)
    await ring.open()
    return ring


def known(times: list[int], values: list[float | None]) -> dict[int, float]:
    return {at: value for at, value in zip(times, values, strict=True) if value is not None}


async def test_values_are_read_back_with_gaps_also_after_a_restart(tmp_path: Path) -> None:
    ring = await opened(tmp_path / "history.db")
    for number in (0, 1, 4):
        await ring.write(START_S + number * 10 + 3, {"a": float(number)})
    await ring.close()
    ring = await opened(tmp_path / "history.db")
    await ring.write(START_S + 60, {"b": 9.0})
    times, (a, b, c) = await ring.read(["a", "b", "never"], TIERS[0], START_S + 65)
    assert len(times) == 720
    assert times[-1] == START_S + 60
    assert known(times, a) == {START_S: 0.0, START_S + 10: 1.0, START_S + 40: 4.0}
    assert known(times, b) == {START_S + 60: 9.0}
    assert known(times, c) == {}
    minutes, (means_of_a,) = await ring.read(["a"], TIERS[1], START_S + 65)
    assert known(minutes, means_of_a) == {START_S: pytest.approx(5 / 3)}
    tens, (coarse,) = await ring.read(["a"], TIERS[2], START_S + 65)
    assert known(tens, coarse) == {START_S: pytest.approx(5 / 3)}
    assert (tmp_path / "history.db").stat().st_mode & 0o777 == 0o600
    await ring.close()


async def test_the_ring_comes_round_and_shows_no_value_of_an_older_lap(tmp_path: Path) -> None:
    ring = await opened(tmp_path / "history.db")
    await ring.write(START_S, {"a": 1.0})
    later = START_S + TIERS[0].span_s + 20
    times, (values,) = await ring.read(["a"], TIERS[0], later)
    assert known(times, values) == {}
    await ring.write(later, {"a": 2.0})
    times, (values,) = await ring.read(["a"], TIERS[0], later)
    assert known(times, values) == {later: 2.0}
    times, (values,) = await ring.read(["a"], TIERS[0], START_S - 1)  # a clock that went back
    assert known(times, values) == {}
    await ring.close()


async def test_of_too_many_series_the_oldest_goes_and_its_values_are_not_given_to_another(tmp_path: Path) -> None:
    ring = await opened(tmp_path / "history.db", series_max=2)
    await ring.write(START_S, {"old": 1.0, "kept": 2.0})
    await ring.write(START_S + 10, {"kept": 2.0})
    await ring.write(START_S + 20, {"kept": 2.0, "new": 3.0})
    for tier in TIERS:
        times, (old, kept, new) = await ring.read(["old", "kept", "new"], tier, START_S + 20)
        assert known(times, old) == {}
        assert known(times, kept)
        assert set(known(times, new).values()) <= {3.0}
    await ring.close()


async def test_the_file_is_bounded(tmp_path: Path) -> None:
    ring = await opened(tmp_path / "history.db", series_max=20)
    values = {f"series-{number}": float(number) for number in range(20)}
    sizes = []
    for lap in range(3):
        for step in range(0, TIERS[0].slots, 4):
            await ring.write(START_S + lap * TIERS[0].span_s + step * 10, values)
        sizes.append((tmp_path / "history.db").stat().st_size + (tmp_path / "history.db-wal").stat().st_size)
    assert sizes[2] - sizes[1] < sizes[0] / 2  # only the coarse tiers still grow
    await ring.close()


async def test_a_damaged_file_is_moved_aside(tmp_path: Path) -> None:
    (tmp_path / "history.db").write_bytes(b"this is no database" * 1000)
    ring = await opened(tmp_path / "history.db")
    await ring.write(START_S, {"a": 1.0})
    assert (tmp_path / "history.db.damaged").exists()
    await ring.close()


def test_means_leave_out_what_is_not_known() -> None:
    rows = [packed({0: 2.0}, 3), packed({0: 4.0, 1: 8.0}, 3)]
    found = unpacked(means(rows, 3))
    assert (found[0], found[1], math.isnan(found[2])) == (3.0, 8.0, True)


def test_a_gap_breaks_the_line_and_nothing_known_draws_nothing() -> None:
    assert path([0.0, 10.0, None, 5.0], 30, 10) == "M0.0 10.0h0.1L10.0 0.0M30.0 5.0h0.1"
    assert path([None, None], 30, 10) == ""
    assert path([0.0], 30, 10) == "M0.0 10.0h0.1"


def test_the_table_of_a_curve_has_twelve_rows_and_unknown_parts() -> None:
    curve = Curve(title="Lag", unit="count", lines=[Line(series="a", label="Lag")])
    values: list[float | None] = [None] * 700 + [float(number) for number in range(20)]
    found = Shown(curve=curve, span="2h", times=list(range(720)), values=[values])
    assert len(found.table) == 12
    assert found.table[0].values == [None]
    assert found.table[-1].values == [9.5]
    assert (found.last, found.most, found.known) == ([19.0], [19.0], True)


def stats(group: str, *queues: tuple[str, int, int, int, int]) -> ConsumeStatsList:
    table = {
        MessageQueue(topic, "b", number): OffsetWrapper(broker_offset=end, consumer_offset=at, last_timestamp=last)
        for topic, number, end, at, last in queues
    }
    return ConsumeStatsList(consume_stats_list=[{group: [ConsumeStats(offset_table=table)]}])


def test_lags_of_all_brokers_add_up_and_the_oldest_queue_tells_the_time() -> None:
    lags, ends = group_lags(
        [stats("g", ("T", 0, 10, 4, 5_000), ("T", 1, 7, 7, 1_000)), stats("g", ("U", 0, 100, 90, 2_000))]
    )
    assert lags == {"g": GroupLag(messages=16, oldest_ms=2_000)}
    assert lags["g"].behind_s(9_000) == 7.0
    assert GroupLag(messages=5).behind_s(9_000) is None  # not known, and not 0
    assert GroupLag().behind_s(9_000) == 0.0
    assert ends == {"T": 17, "U": 100}
    assert grown({"T": 10}, ends) == {"T": 7.0, "U": 0.0}


def test_watched_names_come_first_and_then_the_largest() -> None:
    assert chosen(["w"], {"a": 1.0, "b": 5.0, "w": 0.0}, 2) == ["w", "b"]
    assert chosen(["w", "w", "v"], {}, 5) == ["w", "v"]


def test_a_silent_master_makes_the_sum_unknown_and_one_that_left_does_not() -> None:
    def row(address: str, **more: object) -> BrokerRow:
        summary = BrokerSummary(
            cluster="c", broker=address, broker_id=0, address=address, put_tps=5.0, get_tps=1.0, disk_used=-1.0
        )
        return BrokerRow(summary=summary, seen_ms=1, **more)  # type: ignore[arg-type]

    assert broker_values([row("x"), row("y")]) == {
        "broker/x/in": 5.0, "broker/x/out": 1.0, "broker/y/in": 5.0, "broker/y/out": 1.0,
        "cluster/in": 10.0, "cluster/out": 2.0,
    }  # fmt: skip
    assert "cluster/in" not in broker_values([row("x"), row("y", silent_since_ms=1)])
    gone = broker_values([row("x"), row("y", silent_since_ms=1, listed=False)])
    assert gone["cluster/in"] == 5.0
    assert broker_values([]) == {}


async def test_the_sampler_fills_the_curves_of_a_topic_and_a_lagging_group(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, dashboard(tmp_path, cluster.namesrv) as site:
        await cluster.create_topic("Orders", queues=2)
        async with Producer("shop", namesrv=cluster.namesrv) as producer:
            for number in range(6):
                await producer.send(Message("Orders", b"%d" % number))
        async with PullConsumer("billing", namesrv=cluster.namesrv) as consumer:
            await consumer.commit(dict.fromkeys(await consumer.queues_of("Orders"), 1))
        browser = await site.as_role(Role.READER)
        assert "no value yet" in (await browser.get("/groups/billing")).text
        await browser.get("/topics/Orders")
        done = await site.parts.sampler.sample()
        assert done.lags is not None
        assert done.lags["billing"].messages == 4
        group = (await browser.get("/groups/billing")).text
        assert "data-curve=" in group
        assert "no value yet" not in group.split("Behind")[0]
        for query, at in (("of=group&name=billing", 4.0), ("of=overview&n=1", 4.0)):
            times, values = json.loads((await browser.get(f"/history?{query}")).text)
            assert values[-1] == at or values[-2] == at
            assert values.count(None) >= 718
            assert times[1] - times[0] == 10
        (rates,) = json.loads((await browser.get("/history?of=topic&name=Orders&span=1d")).text)[1:]
        assert any(value is not None for value in rates)
        brokers = json.loads((await browser.get(f"/history?of=broker&name={cluster.address}&n=1")).text)
        assert any(value is not None and 0 < value < 1 for value in brokers[1])  # the disk
        for bad in ("of=x", "of=topic", "span=3y", "n=7", "of=overview&n=5"):
            assert (await browser.get(f"/history?{bad}")).status_code == 400, bad


async def test_a_drained_lag_is_told_from_samples_without_any_page_open(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster, dashboard(tmp_path, cluster.namesrv) as site:
        await cluster.create_topic("Orders", queues=1)
        async with Producer("shop", namesrv=cluster.namesrv) as producer:
            for number in range(40):
                await producer.send(Message("Orders", b"%d" % number))
        clock = ManualClock()
        site.parts.cluster.now_ms = clock
        async with PullConsumer("billing", namesrv=cluster.namesrv) as consumer:
            (queue,) = await consumer.queues_of("Orders")
            for offset, passed_ms in ((10, 0), (30, 60_000)):
                clock.ms += passed_ms
                await consumer.commit({queue: offset})
                site.parts.cluster.collector.forget()
                for _ in range(3):
                    await site.parts.sampler.sample()
        group = (await (await site.as_role(Role.READER)).get("/groups/billing")).text
        assert "30 s" in group.split("Drains in")[1][:40]  # 20 of 30 in a minute


async def test_a_broker_that_hangs_leaves_gaps_and_holds_up_no_sample(tmp_path: Path) -> None:
    async with (
        proxied_cluster(tmp_path) as cluster,
        dashboard(tmp_path, cluster.namesrv, timeout_s=0.3, page_seconds=5.0) as site,
    ):
        sampler = site.parts.sampler
        cluster.hang("broker-b")
        first = await asyncio.wait_for(sampler.sample(), 60)
        assert first.lags is None  # a sum without a broker would be too low
        now_s = site.parts.now_ms() / 1000
        _, (whole, *_) = await site.parts.ring.read([series.CLUSTER_IN], TIERS[0], now_s)
        assert all(value is None for value in whole)


@pytest.mark.skipif(not os.environ.get("HANABI_SLOW_TESTS"), reason="slow: HANABI_SLOW_TESTS=1 runs it")
async def test_fourteen_days_of_a_thousand_series_stay_within_twenty_megabytes(tmp_path: Path) -> None:
    ring = await opened(tmp_path / "history.db", series_max=1_000)
    values = {f"group/some-group-{number}/lag": float(number) for number in range(1_000)}
    for step in range(0, 14 * 86_400, 600):
        await ring.write(START_S + step, values)
    for step in range(0, 7_200, 10):
        await ring.write(START_S + 14 * 86_400 + step, values)
    size = sum(each.stat().st_size for each in tmp_path.iterdir())
    assert size < 20e6, size
    await ring.close()
