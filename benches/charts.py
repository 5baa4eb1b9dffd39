"""Bars as SVG, for the documents: text that a browser draws, and no library for it."""

from collections.abc import Sequence
from html import escape

from benches.c_programs import OUT

ROW, BAR, LEFT, WIDTH, RIGHT = 26, 16, 360, 420, 70


def bars(name: str, title: str, values: Sequence[tuple[str, float]], *, line: float | None = None) -> None:
    """Draw *values* into benches/out/NAME.svg; *line* is a value that all are to be compared with."""
    largest = max([value for _, value in values] + [line or 0.0, 1e-9])
    height = 50 + ROW * len(values) + 10
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + RIGHT}" height="{height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{LEFT + WIDTH + RIGHT}" height="{height}" fill="white"/>',
        f'<text x="10" y="24" font-size="15" font-weight="bold">{escape(title)}</text>',
    ]
    for number, (label, value) in enumerate(values):
        top = 44 + ROW * number
        width = WIDTH * value / largest
        colour = "#c0562f" if line is None or value >= line else "#9a9a9a"
        parts += [
            f'<text x="{LEFT - 8}" y="{top + 13}" text-anchor="end">{escape(label)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{width:.1f}" height="{BAR}" fill="{colour}"/>',
            f'<text x="{LEFT + width + 6:.1f}" y="{top + 13}">{value:.2f}</text>',
        ]
    if line is not None:
        at = LEFT + WIDTH * line / largest
        parts.append(
            f'<line x1="{at:.1f}" y1="38" x2="{at:.1f}" y2="{height - 8}" stroke="black" stroke-dasharray="4 3"/>'
        )
    OUT.mkdir(exist_ok=True)
    (OUT / f"{name}.svg").write_text("\n".join([*parts, "</svg>"]) + "\n")
