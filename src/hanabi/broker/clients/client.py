"""One client as the broker knows it: who it says it is, and the connection that reaches it.

Agrees with Java's ClientChannelInfo, whose last-seen time is kept by each group here: a client that has left one group
without a word may go on in another.
"""

from dataclasses import dataclass

from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.codes import Language
from hanabi.wire.command import Command


@dataclass(frozen=True, slots=True, eq=False)
class Client:
    """Who is at the other end of a connection. `version` is an ordinal of Java's MQVersion."""

    client_id: str
    connection: Connection
    language: str  # the name of a `Language`
    version: int


def client_of(client_id: str, request: Command, connection: Connection) -> Client:
    """Return the client that sent *request* by *connection*, under the id that it gave in the body."""
    return Client(client_id, connection, language_name(request.language), request.version)


def language_name(language: str | int | None) -> str:
    """Return a command names its language by name in JSON, by number in binary. What no `Language` is, is OTHER."""
    if isinstance(language, str):
        return language if language in Language.__members__ else Language.OTHER.name
    if language is None or language not in Language._value2member_map_:
        return Language.OTHER.name
    return Language(language).name


def version_name(version: int) -> str:
    """As Java's MQVersion names the old versions that we must refuse something to; the number for all others."""
    if 16 <= version <= 45:
        major, number = "V3_0", version - 14
    elif 46 <= version <= 65:
        major, number = "V3_1", version - 46
    else:
        return "V3_0_0" if 0 <= version < 16 else str(version)
    return f"{major}_{number // 2}{'' if number % 2 else '_SNAPSHOT'}"
