"""Text of a body in a table: the text itself, or a few bytes if it is binary. Pure."""

from typing import Final

SHOWN: Final = 120


def body_text(body: bytes | None, shown: int = SHOWN) -> str:
    """Return the beginning of *body*, in readable form."""
    if not body:
        return ""
    try:
        text = bytes(body).decode()
    except UnicodeDecodeError:
        start = bytes(body[: shown // 2])
        return f"0x{start.hex()}{'...' if len(body) > len(start) else ''}"
    return text if len(text) <= shown else f"{text[:shown]}..."
