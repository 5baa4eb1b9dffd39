"""Chart of `traffic` as SVG text: messages over time by topic, and their latencies below.

Pure: from numbers to text. Every browser shows it, and drawing some bars and two lines needs no library.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final, NamedTuple

BINS_MAX: Final = 120  # more would be thinner than a line

_WIDTH, _LEFT, _RIGHT = 960, 70, 24
_BARS_TOP, _BARS_HEIGHT = 64, 200
_LINES_TOP, _LINES_HEIGHT = 320, 110
_HEIGHT: Final = _LINES_TOP + _LINES_HEIGHT + 44
_COLOURS: Final = ("#d1495b", "#edae49", "#00798c", "#30638e", "#6a4c93", "#8d99ae")
_OTHERS: Final = "other topics"
_LINES: Final = (("half of them within", "#00798c"), ("99 % within", "#d1495b"))


class Bin(NamedTuple):
    """Messages of one topic in some minutes from `at_s` on; the latencies are those of all topics together."""

    at_s: int
    minutes: int
    topic: str
    messages: int
    p50_ms: float
    p99_ms: float


def draw(bins: Sequence[Bin]) -> str:
    """Return the chart as the text of an SVG file."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
        ' font-family="sans-serif" font-size="12" fill="#333">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
    ]
    if not bins:
        parts.append(_text(_WIDTH / 2, _HEIGHT / 2, "no messages", anchor="middle"))
        return "\n".join([*parts, "</svg>", ""])
    minutes = bins[0].minutes
    times = range(min(each.at_s for each in bins), max(each.at_s for each in bins) + 1, minutes * 60)
    across = _Across(times)
    unit = "minute" if minutes == 1 else f"{minutes} minutes"
    parts.append(_text(_LEFT, 24, f"Messages stored per {unit}", size=15))
    parts += _bars(bins, across)
    parts.append(_text(_LEFT, _LINES_TOP - 14, "From the producer to the store, in milliseconds", size=15))
    parts += _lines(bins, across)
    parts += _times(times, across)
    return "\n".join([*parts, "</svg>", ""])


class _Across:
    """Horizontal scale: times to positions."""

    def __init__(self, times: range) -> None:
        self._first, self._step = times[0], times.step
        self.width = (_WIDTH - _LEFT - _RIGHT) / len(times)

    def left(self, at_s: int) -> float:
        return _LEFT + (at_s - self._first) // self._step * self.width

    def middle(self, at_s: int) -> float:
        return self.left(at_s) + self.width / 2


def _bars(bins: Sequence[Bin], across: _Across) -> list[str]:
    by_topic: Counter[str] = Counter()
    for each in bins:
        by_topic[each.topic] += each.messages
    named = [topic for topic, _ in by_topic.most_common(len(_COLOURS) - (len(by_topic) > len(_COLOURS)))]
    shown = [*named, _OTHERS] if len(named) < len(by_topic) else named
    colours = dict(zip(shown, _COLOURS, strict=False))
    heights: dict[int, Counter[str]] = {}
    for each in bins:
        heights.setdefault(each.at_s, Counter())[each.topic if each.topic in colours else _OTHERS] += each.messages
    up, parts = _scale(max(sum(bar.values()) for bar in heights.values()), _BARS_TOP, _BARS_HEIGHT)
    for at_s, bar in sorted(heights.items()):
        below = 0
        for topic in shown:
            if bar[topic]:
                top, bottom = up(below + bar[topic]), up(below)
                parts.append(
                    f'<rect x="{across.left(at_s) + 0.5:.1f}" y="{top:.1f}" width="{max(across.width - 1, 0.8):.1f}"'
                    f' height="{bottom - top:.1f}" fill="{colours[topic]}"/>'
                )
                below += bar[topic]
    return [*parts, *_legend(list(colours.items()), 44)]


def _lines(bins: Sequence[Bin], across: _Across) -> list[str]:
    latencies = {each.at_s: (each.p50_ms, each.p99_ms) for each in bins}
    up, parts = _scale(max(max(both) for both in latencies.values()), _LINES_TOP, _LINES_HEIGHT)
    for number, (_, colour) in enumerate(_LINES):
        points = [(across.middle(at_s), up(max(both[number], 0.0))) for at_s, both in sorted(latencies.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>' for x, y in points]
    return [*parts, *_legend(list(_LINES), _LINES_TOP - 14, left=_WIDTH - _RIGHT - 300)]


def _scale(highest: float, top: int, height: int) -> tuple[Callable[[float], float], list[str]]:
    """Return the vertical scale, from values to heights, and its grid lines and labels."""
    step = _round_step(highest / 4)
    end = max(math.ceil(highest / step) * step, step)

    def up(value: float) -> float:
        return top + height - value / end * height

    parts = []
    for number in range(round(end / step) + 1):
        value = number * step
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{up(value):.1f}" y2="{up(value):.1f}" stroke="#dddddd"/>'
        )
        parts.append(_text(_LEFT - 8, up(value) + 4, f"{value:,g}" if step < 1 else f"{value:,.0f}", anchor="end"))
    return up, parts


def _round_step(least: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50... (and of 0.1, 0.2, 0.5) that is not less."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * 0.999)


def _times(times: range, across: _Across) -> list[str]:
    every = max(1, math.ceil(len(times) / 10))
    parts = [
        _text(across.middle(at_s), _HEIGHT - 24, datetime.fromtimestamp(at_s, UTC).strftime("%H:%M"), anchor="middle")
        for at_s in times[::every]
    ]
    day = datetime.fromtimestamp(times[0], UTC).strftime("from %Y-%m-%d %H:%M UTC")
    return [*parts, _text(_WIDTH - _RIGHT, _HEIGHT - 6, day, anchor="end")]


def _legend(names: list[tuple[str, str]], y: int, left: float = _LEFT) -> list[str]:
    parts, x = [], left
    for name, colour in names:
        shown = name if len(name) <= 24 else name[:23] + "…"
        parts.append(f'<rect x="{x:.0f}" y="{y - 10}" width="11" height="11" fill="{colour}"/>')
        parts.append(_text(x + 16, y, shown))
        x += 34 + 7 * len(shown)
    return parts


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'
