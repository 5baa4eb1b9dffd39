import pytest

from hanabi.remoting.address import format_address, parse_address


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:10911", "127.0.0.1", 10911),
        ("broker-a.example:9876", "broker-a.example", 9876),
        ("[::1]:9876", "::1", 9876),
        (" localhost:1 ", "localhost", 1),
        ("::1:9876", "::1", 9876),  # as Java writes it
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize(
    "text", ["", "9876", ":9876", "host", "host:", "host:x", "host:0", "host:65536", "host:-1", "host:١"]
)
def test_an_address_that_is_none_is_refused_and_named(text: str) -> None:
    with pytest.raises(ValueError, match=text or "''"):
        parse_address(text)


@pytest.mark.parametrize(
    ("socket_address", "text"),
    [(("127.0.0.1", 5000), "127.0.0.1:5000"), (("::1", 5000, 0, 0), "[::1]:5000")],
)
def test_a_socket_address_reads_back(socket_address: tuple[str, int], text: str) -> None:
    assert format_address(socket_address) == text
    assert parse_address(text) == socket_address[:2]
