"""Prometheus' text format, version 0.0.4: families of samples as lines. Pure: independent of the things measured.

Ours and not a library's, because a broker has tens of thousands of samples: lines are made one at a time, by iterators,
so that the writer can yield to the event loop in between.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

Sample = tuple[str, int | float]  # labels as `labels` writes them, and the value

_ESCAPES: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def labels(**values: object) -> str:
    """Format labels as `{topic="Orders",queue="3"}`; empty for none."""
    if not values:
        return ""
    return "{" + ",".join(f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in values.items()) + "}"


def family(name: str, kind: str, about: str, samples: Iterable[Sample]) -> Iterator[str]:
    """Yield the lines of one family: counters and gauges."""
    yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    for label_text, value in samples:
        yield f"{name}{label_text} {value}\n"


def counter(name: str, about: str, samples: Iterable[Sample] | int | float) -> Iterator[str]:
    """Yield the lines of a counter: a value that only grows until the process ends."""
    return family(name, "counter", about, _several(samples))


def gauge(name: str, about: str, samples: Iterable[Sample] | int | float) -> Iterator[str]:
    """Yield the lines of a gauge: a value that goes up and down."""
    return family(name, "gauge", about, _several(samples))


def histogram(
    name: str, about: str, bounds: Sequence[float], series: Iterable[tuple[Mapping[str, object], Sequence[int], float]]
) -> Iterator[str]:
    """*series*: labels, how many fell into each class (one more than there are *bounds*), and the sum of all values."""
    yield f"# HELP {name} {about}\n# TYPE {name} histogram\n"
    for values, counts, total in series:
        before = labels(**values)[:-1] + "," if values else "{"
        sum_so_far = 0
        for bound, count in zip((*bounds, "+Inf"), counts, strict=True):
            sum_so_far += count
            yield f'{name}_bucket{before}le="{bound}"}} {sum_so_far}\n'
        yield f"{name}_sum{labels(**values)} {total}\n{name}_count{labels(**values)} {sum_so_far}\n"


def _several(samples: Iterable[Sample] | int | float) -> Iterable[Sample]:
    return [("", samples)] if isinstance(samples, int | float) else samples
