"""Texts in two languages: the English sentence is the key. A test compares the table with the templates."""

import json
from functools import cache
from pathlib import Path
from typing import Final

LANGUAGES: Final = ("en", "zh")


@cache
def _chinese() -> dict[str, str]:
    table: dict[str, str] = json.loads((Path(__file__).parent / "chinese.json").read_text())
    return table


def translated(text: str, language: str) -> str:
    """Return *text* in *language*; a sentence without a translation stays English."""
    return _chinese().get(text, text) if language == "zh" else text


def preferred(cookie: str, accept: str) -> str:
    """Return the language of a visitor: the chosen one, or the browser's first that there is."""
    if cookie in LANGUAGES:
        return cookie
    for part in accept.lower().split(","):
        language = part.partition(";")[0].strip()[:2]
        if language in LANGUAGES:
            return language
    return "en"
