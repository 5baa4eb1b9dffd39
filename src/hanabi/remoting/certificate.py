"""Names in a certificate, as Python's ssl module returns a verified one."""

from collections.abc import Mapping
from typing import Any


def names_in(certificate: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the common name and all alternative names, each once."""
    subject = (value for part in certificate.get("subject", ()) for key, value in part if key == "commonName")
    others = (value for _, value in certificate.get("subjectAltName", ()) if isinstance(value, str))
    return tuple(dict.fromkeys((*subject, *others)))
