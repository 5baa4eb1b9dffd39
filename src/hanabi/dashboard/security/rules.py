"""Rules about the headers of a request. Pure."""

import ipaddress
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import urlsplit

CSP: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
RESPONSE_HEADERS: Final = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def host_is_allowed(host: str, allowed: Collection[str]) -> bool:
    """Return whether a Host header may be ours. An address is: a page of another site cannot have it as its name,
    which is what DNS rebinding needs.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
        _ = urlsplit(f"//{host}").port
    except ValueError:
        return False
    if any(sign in host for sign in "/@?#\\ ") or not name:
        return False
    if name == "localhost" or name in {each.lower() for each in allowed}:
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def comes_from_our_page(headers: Mapping[str, str], host: str) -> bool:
    """Return whether a request that changes something was made by a page of ours, as far as its browser says."""
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return False
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == host


def client_address(peer: str, headers: Mapping[str, str], trusted: Collection[str]) -> str:
    """Return the address of the browser: the peer, or what a trusted proxy says."""
    if peer not in trusted:
        return peer
    hops = [hop.strip() for hop in headers.get("x-forwarded-for", "").split(",") if hop.strip()]
    return next((hop for hop in reversed(hops) if hop not in trusted), peer)


def is_https(scheme: str, peer: str, headers: Mapping[str, str], trusted: Collection[str]) -> bool:
    """Return whether the browser speaks TLS, to us or to a trusted proxy."""
    return scheme == "https" or (peer in trusted and headers.get("x-forwarded-proto") == "https")
