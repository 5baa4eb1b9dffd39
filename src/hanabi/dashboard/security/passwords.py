"""Passwords: kept as scrypt hashes, compared in constant time, and made at random for the first administrator."""

import base64
import hashlib
import hmac
import secrets
from typing import Final

PASSWORD_CHARACTERS_MIN: Final = 10
PASSWORD_CHARACTERS_MAX: Final = 256
_R, _P = 8, 1
_SALT_BYTES: Final = 16


def new_password() -> str:
    """Return a random password that can be typed."""
    return secrets.token_urlsafe(15)


def hashed(password: str, log_n: int) -> str:
    """Return the form in which *password* is kept. Takes about 0.1 s and 32 MiB with *log_n* 15."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return f"scrypt${log_n}${_encode(salt)}${_encode(_scrypt(password, salt, log_n))}"


def matches(password: str, kept: str) -> bool:
    """Return whether *password* is the one whose hash is *kept*."""
    scheme, log_n, salt, digest = kept.split("$")
    if scheme != "scrypt":
        return False
    return hmac.compare_digest(_scrypt(password, _decode(salt), int(log_n)), _decode(digest))


def problem_of(password: str) -> str | None:
    """Return what is wrong with a new password; None if it may be used."""
    if len(password) < PASSWORD_CHARACTERS_MIN:
        return f"a password has at least {PASSWORD_CHARACTERS_MIN} characters"
    if len(password) > PASSWORD_CHARACTERS_MAX:
        return f"a password has at most {PASSWORD_CHARACTERS_MAX} characters"
    return None


def _scrypt(password: str, salt: bytes, log_n: int) -> bytes:
    memory = 2 * 128 * _R * (1 << log_n)
    return hashlib.scrypt(password.encode(), salt=salt, n=1 << log_n, r=_R, p=_P, maxmem=memory, dklen=32)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text)
