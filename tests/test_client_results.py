"""Tests of what the comparison of clients says of its figures: ratios of neighbours, failures as such, demands met or
missed."""

from benches.client_peers import JAVA, OURS
from benches.client_programs import Round
from benches.client_results import Results, demands, figures, rates, ratios


def rounds(*per_second: int) -> list[Round]:
    return [Round(messages=rate, seconds=1.0, cpu_us=10.0) for rate in per_second]


RESULTS: Results = {
    "send": {
        OURS: rounds(700, 600, 650),
        "slow": rounds(350, 100, 325),
        "broken": "it hangs",
        JAVA: rounds(1000, 1000, 1300),
    },
    "asyncio": {OURS: rounds(13_000, 13_000), "quick": rounds(26_000, 6_500)},
    "push": {OURS: rounds(59_000)},
}


def test_a_ratio_is_of_rounds_beside_each_other() -> None:
    assert ratios(RESULTS["send"][OURS], RESULTS["send"]["slow"]) == [2.0, 6.0, 2.0]
    assert ratios(RESULTS["send"][OURS], "it hangs") == []


def test_the_table_names_failures_and_gives_the_range_of_ratios() -> None:
    lines = rates(RESULTS).splitlines()
    (slow,) = [line for line in lines if "slow" in line]
    assert [cell.strip() for cell in slow.split("|")[3:-1]] == ["325", "10.0", "2.00", "2.00 to 6.00"]
    assert any("broken" in line and "failed: it hangs" in line for line in lines)


def test_each_demand_is_met_or_missed() -> None:
    lines = demands(RESULTS, blocking="send", asyncio="asyncio", consuming=["push"]).splitlines()[2:]
    verdicts = {line.split("|")[1].strip(): line.split("|")[4].strip() for line in lines}
    assert verdicts == {
        "blocking sender to one Java thread": "met",
        "asyncio sends a second": "met",
        "push, a second": "MISSED",
        "send: to the nearest, slow": "met",
        "asyncio: to the nearest, quick": "met",  # 0.5 and 2.0: 1.25 in the middle
    }


def test_without_java_its_demand_is_not_measured() -> None:
    results: Results = {"send": {OURS: rounds(700)}}
    assert "not measured" in demands(results, blocking="send", asyncio="send", consuming=())


def test_the_figures_keep_every_round() -> None:
    kept = figures(RESULTS)["send"]
    assert isinstance(kept, dict)
    assert kept["slow"]["messages_per_second"] == [350, 100, 325]
    assert kept["broken"] == {"failed": "it hangs"}
