"""Options of pipelines: texts and files become checked values, and what is wrong is one sentence. Pure."""

from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
import pytest

from hanabi.errors import ConfigError
from hanabi.spark.pipelines.catalogue import SUMMARIES, find
from hanabi.spark.pipelines.contract import Rate
from hanabi.spark.pipelines.options import Option, build, check_names, options_of, parse_flags


def described(text: str, **limits: Any) -> msgspec.Meta:
    return msgspec.Meta(description=text, **limits)


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    to: Annotated[str, described("where to")]
    topics: Annotated[list[str] | None, described("which")] = None
    rate: Annotated[Rate | None, described("how fast")] = None
    batch_messages: Annotated[int, described("how many", ge=1)] = 10
    mode: Annotated[Literal["one", "two"], described("how")] = "one"
    dry_run: Annotated[bool, described("only look")] = False
    compact: Annotated[bool, described("join")] = True
    namesrv: Annotated[str | None, described("whom")] = None

    def __post_init__(self) -> None:
        if self.to == "nowhere":
            raise ConfigError("option to: nowhere is no place")


def flags(*words: str) -> Sample:
    return build(Sample, parse_flags(Sample, words, "sample"), "sample")


def from_file(told: dict[str, Any]) -> Sample:
    return build(Sample, check_names(Sample, told, "sample", "it.yaml"), "sample")


def test_words_become_values() -> None:
    assert flags("--to", "x") == Sample(to="x")
    assert flags("--to=a=b", "--rate", "2", "--batch-messages", "7", "--mode", "two", "-n", "h:1") == Sample(
        to="a=b", rate=2.0, batch_messages=7, mode="two", namesrv="h:1"
    )
    assert flags("--to", "-5", "--dry-run", "--no-compact") == Sample(to="-5", dry_run=True, compact=False)
    assert flags("--to", "null", "--dry-run=no", "--compact=TRUE") == Sample(to="null")
    assert flags("--to", "x", "--topics", "a, b", "--topics=c") == Sample(to="x", topics=["a", "b", "c"])


def test_a_file_has_the_same_options() -> None:
    assert from_file({"to": "x", "batch-messages": 7, "topics": ["a"], "dry_run": True}) == Sample(
        to="x", batch_messages=7, topics=["a"], dry_run=True
    )
    assert from_file({"to": datetime(2026, 11, 15, 6, 45), "topics": "a,b"}) == Sample(
        to="2026-11-15T06:45:00", topics=["a", "b"]
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "pipeline sample needs --to: where to"),
        (["--to"], "option --to needs a value: text"),
        (["--to", "a", "--to", "b"], "option --to is given twice"),
        (["here"], "pipeline sample takes options only, such as --to, not 'here'"),
        (["--topic", "a"], "pipeline sample has no option --topic: did you mean '--topics'?"),
        (["--zzzzzz", "a"], "pipeline sample has no option --zzzzzz: `hanabi pipeline show sample` lists them all"),
        (["--to", "a", "--rate", "fast"], "option rate='fast': must be a number, more than 0"),
        (["--to", "a", "--rate", "0"], "option rate='0': must be a number, more than 0"),
        (["--to", "a", "--batch-messages", "1.5"], "option batch-messages='1.5': must be a whole number, at least 1"),
        (["--to", "a", "--mode", "three"], "option mode='three': must be one of one, two"),
        (["--to", "a", "--dry-run=maybe"], "option dry-run='maybe': must be true or false"),
        (["--to", "nowhere"], "option to: nowhere is no place"),
    ],
)
def test_what_is_wrong_is_one_sentence(words: list[str], sentence: str) -> None:
    with pytest.raises(ConfigError) as caught:
        flags(*words)
    assert str(caught.value) == sentence


def test_what_is_wrong_in_a_file_names_the_file() -> None:
    with pytest.raises(ConfigError, match=r"^it\.yaml: pipeline sample has no option topic: did you mean 'topics'\?$"):
        from_file({"topic": "a"})
    with pytest.raises(ConfigError, match=r"^it\.yaml: dry-run is given twice$"):
        from_file({"dry_run": True, "dry-run": False})
    with pytest.raises(ConfigError, match=r"^option to=\['x'\]: must be text$"):
        from_file({"to": ["x"]})


def test_options_tell_what_they_are() -> None:
    found = {each.name: each for each in options_of(Sample)}
    assert found["to"] == Option(name="to", type="text", default=None, required=True, meaning="where to")
    assert (found["rate"].type, found["batch-messages"].default) == ("a number, more than 0", 10)
    assert (found["topics"].type, found["mode"].type) == ("a list, with commas", "one of one, two")


@pytest.mark.parametrize("name", SUMMARIES)
def test_every_pipeline_is_what_the_catalogue_says_and_explains_its_options(name: str) -> None:
    pipeline = find(name)
    assert (pipeline.name, pipeline.summary) == (name, SUMMARIES[name])
    for option in options_of(pipeline.options):
        assert option.meaning, f"{name}: --{option.name} has no description"
        assert option.type.split(",")[0] in {"text", "true or false", "a whole number", "a number", "a list"} or (
            option.type.startswith("one of ")
        )
