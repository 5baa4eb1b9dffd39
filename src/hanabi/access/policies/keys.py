"""Keys of broker.conf for access control of 5.x (Java's AuthConfig), as values.

Class names and strategies of Apache are accepted where they mean what happens here: users and policies are kept by the
broker itself, and each signature is verified. Errors name the key and never show a secret.
"""

from typing import Final, TypeVar

import msgspec

from hanabi.access.inner import InnerCredentials
from hanabi.access.policies.model import User, UserType
from hanabi.access.secret import resolved_secret
from hanabi.errors import ConfigError
from hanabi.wire.settings_text import shortened

INIT_USER: Final = "initAuthenticationUser"
INNER_CREDENTIALS: Final = "innerClientAuthenticationCredentials"
_PACKAGE: Final = "org.apache.rocketmq.auth."
# Last parts of the class names that mean the only implementation here.
_KNOWN_CLASSES: Final = frozenset(
    {
        "DefaultAuthenticationProvider",
        "DefaultAuthorizationProvider",
        "LocalAuthenticationMetadataProvider",
        "LocalAuthorizationMetadataProvider",
        "StatelessAuthenticationStrategy",
        "StatelessAuthorizationStrategy",
        "StatefulAuthenticationStrategy",
        "StatefulAuthorizationStrategy",
    }
)

T = TypeVar("T", bound=msgspec.Struct)


class _UserText(msgspec.Struct):
    username: str = ""
    password: str = ""


class _CredentialsText(msgspec.Struct, rename="camel"):
    access_key: str = ""
    secret_key: str = ""


def check_class(key: str, name: str) -> None:
    """Raise ConfigError unless *name* is blank or a class of Apache whose work is done here."""
    short = name.strip().rpartition(".")[2]
    if name.strip() and (short not in _KNOWN_CLASSES or not name.strip().startswith((_PACKAGE, short))):
        raise ConfigError(f"{key} = {shortened(name)}: this broker has no such class; leave the key out")


def read_codes(key: str, text: str) -> frozenset[int]:
    """Return the request codes in a list with commas."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if not (word.isascii() and word.isdecimal()):
            raise ConfigError(f"{key}: {shortened(word)} is no request code")
    return frozenset(map(int, words))


def read_init_user(text: str) -> User | None:
    """Return the Super user that a broker creates if it is not there; None without a value."""
    if not text.strip():
        return None
    given = _read(INIT_USER, text, _UserText, '{"username":"...","password":"..."}')
    if not given.username.strip() or not given.password.strip():
        raise ConfigError(f"{INIT_USER}: username and password must not be blank")
    password = resolved_secret(given.password, f"{INIT_USER}: user {given.username}")
    return User(username=given.username, password=password, user_type=UserType.SUPER)


def read_inner_credentials(text: str) -> InnerCredentials | None:
    """Return the identity of the broker itself; None without a value."""
    if not text.strip():
        return None
    given = _read(INNER_CREDENTIALS, text, _CredentialsText, '{"accessKey":"...","secretKey":"..."}')
    if not given.access_key.strip() or not given.secret_key.strip():
        raise ConfigError(f"{INNER_CREDENTIALS}: accessKey and secretKey must not be blank")
    secret = resolved_secret(given.secret_key, f"{INNER_CREDENTIALS}: {given.access_key}")
    return InnerCredentials(given.access_key, secret)


def _read(key: str, text: str, kind: type[T], form: str) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError):
        # Without the cause: it may show a part of the secret.
        raise ConfigError(f"{key} is not of the form {form}") from None
