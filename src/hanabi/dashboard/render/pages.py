"""The templates and the functions that all of them have. Escapes everything that a template shows."""

from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from hanabi.dashboard.render import figures, sparkline
from hanabi.dashboard.render.texts import translated

TEMPLATES: Final = Path(__file__).parent.parent / "templates"


class Pages:
    """Templates by name."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(TEMPLATES),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.filters.update(
            count=figures.count,
            rate=figures.rate,
            percent=figures.percent,
            size=figures.size,
            moment=figures.moment,
            span=figures.span,
            sparkline=sparkline.path,
            segment=lambda text: quote(text, safe=""),
        )
        self._environment.globals["link"] = link

    def render(self, template: str, language: str, values: dict[str, Any]) -> str:
        """Return a page, or a part of one."""
        return self._environment.get_template(template).render(
            {"t": partial(translated, language=language), "language": language, **values}
        )


def link(path: str, **query: Any) -> str:
    """Return a path with the query parameters that are not empty."""
    given = {name: value for name, value in query.items() if value not in (None, "", False)}
    return f"{path}?{urlencode(given)}" if given else path
