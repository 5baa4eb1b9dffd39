"""One client as the broker knows it: its identity, and the connection that reaches it.

Agrees with Java's ClientChannelInfo, except that each group keeps the last-seen time: a client that has silently left
one group may go on in another.
"""

from dataclasses import dataclass

from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.codes import Language
from hanabi.wire.command import Command


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """Client at the other end of a connection. `version` is an ordinal of Java's MQVersion."""

    client_id: str
    connection: Connection
    language: str  # the name of a `Language`
    version: int


def client_of(client_id: str, request: Command, connection: Connection) -> Client:
    """Return the client that sent *request* on *connection*, under the id from the body."""
    return Client(client_id, connection, language_name(request.language), request.version)


def language_name(language: str | int | None) -> str:
    """Return the name of a command's language, which is a name in JSON and a number in binary; OTHER if it is
    unknown."""
    if isinstance(language, str):
        return language if language in Language.__members__ else Language.OTHER.name
    if language is None or language not in Language._value2member_map_:
        return Language.OTHER.name
    return Language(language).name


def version_name(version: int) -> str:
    """Return Java's MQVersion name of the old versions that need refusals; the number for all later ones."""
    if 16 <= version <= 45:
        major, number = "V3_0", version - 14
    elif 46 <= version <= 65:
        major, number = "V3_1", version - 46
    else:
        return "V3_0_0" if 0 <= version < 16 else str(version)
    return f"{major}_{number // 2}{'' if number % 2 else '_SNAPSHOT'}"
