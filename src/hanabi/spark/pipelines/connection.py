"""Connection options of every pipeline that uses a cluster; base class of their Structs."""

import os
from typing import Annotated, Final

import msgspec

from hanabi.client.credentials import SECRET_VARIABLE, find_credentials

NAMESRV_VARIABLE: Final = "NAMESRV_ADDR"
DEFAULT_NAMESRV: Final = "127.0.0.1:9876"  # the default address of `hanabi serve`


class Connection(msgspec.Struct, frozen=True, kw_only=True):
    """Connection to a cluster. All machines of the Spark cluster must reach it, and have the files named here."""

    namesrv: Annotated[
        str | None,
        msgspec.Meta(description=f"name servers, HOST:PORT separated by ; (${NAMESRV_VARIABLE}, {DEFAULT_NAMESRV})"),
    ] = None
    access_key: Annotated[
        str | None,
        msgspec.Meta(description=f"sign requests with this key, its secret is in ${SECRET_VARIABLE}; or file:PATH"),
    ] = None
    tls: Annotated[bool, msgspec.Meta(description="use TLS")] = False
    tls_trust_cert_path: Annotated[
        str | None, msgspec.Meta(description="CA certificates of the servers; without it, any certificate is accepted")
    ] = None
    tls_cert_path: Annotated[
        str | None, msgspec.Meta(description="client certificate, for servers that request one")
    ] = None
    tls_key_path: Annotated[str | None, msgspec.Meta(description="the key of that certificate")] = None

    @property
    def namesrv_addresses(self) -> str:
        return self.namesrv or os.environ.get(NAMESRV_VARIABLE) or DEFAULT_NAMESRV

    def spark_options(self) -> dict[str, str]:
        """Return the options for `spark.read.format("rocketmq")` and for the sink, named as in docs/spark.md."""
        given = {"namesrv": self.namesrv_addresses}
        if (access := find_credentials(self.access_key, f"access-key={self.access_key}")) is not None:
            given |= {"accessKey": access.access_key, "secretKey": access.secret_key}
        paths = {
            "tlsTrustCertPath": self.tls_trust_cert_path,
            "tlsCertPath": self.tls_cert_path,
            "tlsKeyPath": self.tls_key_path,
        }
        if self.tls:
            given["tls"] = "true"
        return given | {name: path for name, path in paths.items() if path is not None}
