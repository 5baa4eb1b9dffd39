"""One warning if a server that other machines reach is not protected."""

import pytest

from hanabi.cli.serve.open_doors import Door, warn_metrics, warning
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


@pytest.mark.parametrize(
    ("host", "is_guarded", "warns"),
    [("0.0.0.0", False, True), ("", False, True), ("0.0.0.0", True, False), ("127.0.0.1", False, False)],  # noqa: S104
)
def test_an_open_port_for_operators_is_told(
    caplog: pytest.LogCaptureFixture, host: str, is_guarded: bool, warns: bool
) -> None:
    warn_metrics(host, is_guarded)
    assert ("metrics listen on" in caplog.text) == warns
