"""Tests that Prometheus reads what we write: judged by the parser of its own Python client."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from hanabi.metrics.exposition import counter, gauge, histogram, labels
from hanabi.metrics.histogram import Histogram


def test_counters_and_gauges_have_their_help_their_type_and_their_values() -> None:
    text = "".join(
        [
            *counter("sent_total", "Messages.", [(labels(topic="a", queue=3), 7), (labels(topic="b", queue=0), 0)]),
            *gauge("ratio", "How full.", 0.25),
        ]
    )
    sent, ratio = text_string_to_metric_families(text)
    assert (sent.name, sent.type, sent.documentation) == ("sent", "counter", "Messages.")
    assert {(s.name, s.labels["topic"], s.labels["queue"], s.value) for s in sent.samples} == {
        ("sent_total", "a", "3", 7.0),
        ("sent_total", "b", "0", 0.0),
    }
    assert [(s.labels, s.value) for s in ratio.samples] == [({}, 0.25)]


def test_a_family_without_samples_is_still_one() -> None:
    (family,) = text_string_to_metric_families("".join(gauge("nothing", "None yet.", [])))
    assert (family.type, family.samples) == ("gauge", [])


@given(st.text())
def test_any_name_of_a_topic_comes_back_as_it_was(name: str) -> None:
    (family,) = text_string_to_metric_families("".join(gauge("lag", "Behind.", [(labels(topic=name), 1)])))
    assert [sample.labels["topic"] for sample in family.samples] == [name]


def test_buckets_of_a_histogram_count_everything_below_them() -> None:
    times = Histogram((0.001, 0.01))
    for seconds in (0.0005, 0.001, 0.002, 5.0):
        times.add(seconds)
    text = "".join(histogram("took_seconds", "Time.", times.bounds, [({"of": "x"}, times.counts, times.seconds)]))
    (family,) = text_string_to_metric_families(text)
    buckets = {s.labels["le"]: s.value for s in family.samples if s.name.endswith("_bucket")}
    assert buckets == {"0.001": 2.0, "0.01": 3.0, "+Inf": 4.0}
    (total,) = (s for s in family.samples if s.name == "took_seconds_sum")
    (count,) = (s for s in family.samples if s.name == "took_seconds_count")
    assert math.isclose(total.value, 5.0035)
    assert (count.value, count.labels) == (4.0, {"of": "x"})


@pytest.mark.parametrize("values", [{}, {"server": "broker"}])
def test_a_histogram_may_have_labels_or_none(values: dict[str, object]) -> None:
    text = "".join(histogram("t_seconds", "Time.", (1.0,), [(values, [1, 0], 0.5)]))
    (family,) = text_string_to_metric_families(text)
    assert {tuple(s.labels.get(name) for name in values) for s in family.samples} == {tuple(values.values())}
