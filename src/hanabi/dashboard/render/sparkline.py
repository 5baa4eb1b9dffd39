"""Lines of values as SVG paths, for browsers without JavaScript and for lists. Pure. A gap breaks the line."""

from collections.abc import Sequence


def path(values: Sequence[float | None], width: float, height: float, top: float | None = None) -> str:
    """Return the `d` of an SVG path; *top* is the value at the upper edge. A single value between gaps is a dot."""
    highest = top if top is not None else max((value for value in values if value is not None), default=0.0)
    step = width / max(len(values) - 1, 1)
    parts: list[str] = []
    pen_is_down = False
    for number, value in enumerate(values):
        if value is None:
            pen_is_down = False
            continue
        share = min(max(value / highest, 0.0), 1.0) if highest > 0 else 0.0
        place = f"{number * step:.1f} {height - share * height:.1f}"
        parts.append(f"L{place}" if pen_is_down else f"M{place}h0.1")
        pen_is_down = True
    return "".join(parts)
