"""One warning if a server that other machines reach is not protected."""

import pytest

from hanabi.cli.serve.open_doors import Door, warning
from hanabi.remoting.transport.tls import ClientAuth, TlsConfig, TlsMode

MUTUAL = TlsConfig(server_mode=TlsMode.ENFORCING, server_need_client_auth=ClientAuth.REQUIRE)
ANY = "0.0.0.0"  # noqa: S104


@pytest.mark.parametrize("host", [ANY, "::", "10.1.2.3", "broker.example.org", ""])
def test_an_open_port_is_named(host: str) -> None:
    line = warning([Door(host, False, None), Door("127.0.0.1", False, None)])
    assert line is not None
    assert line.startswith(f"listening on {host or 'all addresses'} without protection: ")
    assert "\n" not in line


@pytest.mark.parametrize(
    "doors",
    [
        [],
        [Door("127.0.0.1", False, None), Door("localhost", False, None), Door("::1", False, None)],
        [Door(ANY, True, None)],
        [Door(ANY, False, MUTUAL)],
        [Door(ANY, False, None), Door(ANY, True, None)],  # some protection: the operator knows
    ],
)
def test_a_port_that_is_protected_or_local_is_not(doors: list[Door]) -> None:
    assert warning(doors) is None


def test_tls_without_client_certificates_is_no_protection() -> None:
    assert warning([Door(ANY, False, TlsConfig(server_mode=TlsMode.ENFORCING))]) is not None
