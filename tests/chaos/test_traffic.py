"""A message says of itself who it is, and a damaged one is nobody."""

import pytest

from chaos.traffic import Kind, Label, body_of, label_of


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("number", [1, 17, 40_000])
def test_a_body_has_its_label_back(kind: Kind, number: int) -> None:
    label = Label(kind, "producing-1", number)
    assert body_of(label) == body_of(label)
    assert label_of(body_of(label)) == label


def test_a_changed_or_cut_body_is_nobodys() -> None:
    body = body_of(Label(Kind.PLAIN, "producing-1", 1))
    assert label_of(body[:-1]) is None
    assert label_of(body[:-1] + b"!") is None
    assert label_of(b"hello") is None
    assert label_of(b"") is None
