"""The options by which every pipeline that talks to a cluster reaches it; base of their Structs."""

import os
from typing import Annotated, Final

import msgspec

from hanabi.errors import ConfigError

NAMESRV_VARIABLE: Final = "NAMESRV_ADDR"
SECRET_VARIABLE: Final = "HANABI_SECRET_KEY"  # noqa: S105 - the name of a variable; a secret in a command line is none
DEFAULT_NAMESRV: Final = "127.0.0.1:9876"  # where `hanabi serve` is


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a cluster. All machines of the Spark cluster must reach it, and have the files named here."""

    namesrv: Annotated[
        str | None,
        msgspec.Meta(
            description=f"name servers, HOST:PORT with ; between them (${NAMESRV_VARIABLE}, {DEFAULT_NAMESRV})"
        ),
    ] = None
    access_key: Annotated[
        str | None, msgspec.Meta(description=f"sign requests with this key; its secret is in ${SECRET_VARIABLE}")
    ] = None
    tls: Annotated[bool, msgspec.Meta(description="talk TLS")] = False
    tls_trust_cert_path: Annotated[
        str | None, msgspec.Meta(description="whose signature makes us believe a server; without it, anybody's")
    ] = None
    tls_cert_path: Annotated[str | None, msgspec.Meta(description="who we are, where servers ask")] = None
    tls_key_path: Annotated[str | None, msgspec.Meta(description="the key of that certificate")] = None

    @property
    def namesrv_addresses(self) -> str:
        return self.namesrv or os.environ.get(NAMESRV_VARIABLE) or DEFAULT_NAMESRV

    def spark_options(self) -> dict[str, str]:
        """For `spark.read.format("rocketmq").options(**...)`, and for the sink: names as docs/spark.md has them."""
        given = {"namesrv": self.namesrv_addresses}
        if self.access_key is not None:
            secret = os.environ.get(SECRET_VARIABLE, "")
            if not secret:
                raise ConfigError(f"access-key={self.access_key}: its secret must be in the variable {SECRET_VARIABLE}")
            given |= {"accessKey": self.access_key, "secretKey": secret}
        paths = {
            "tlsTrustCertPath": self.tls_trust_cert_path,
            "tlsCertPath": self.tls_cert_path,
            "tlsKeyPath": self.tls_key_path,
        }
        if self.tls:
            given["tls"] = "true"
        return given | {name: path for name, path in paths.items() if path is not None}
