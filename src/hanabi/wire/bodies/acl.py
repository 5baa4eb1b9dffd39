"""Access control, as operators see it.

Agrees with Java's AclConfig and PlainAccessConfig.
"""

from hanabi.wire.body import Body, written


class PlainAccessConfig(Body, frozen=True, kw_only=True):
    """The permissions of one account."""

    access_key: str | None = None
    admin: bool = written(False)
    default_group_perm: str | None = None
    default_topic_perm: str | None = None
    group_perms: list[str] | None = None
    secret_key: str | None = None
    topic_perms: list[str] | None = None
    white_remote_address: str | None = None


class AclConfig(Body, frozen=True, kw_only=True):
    """All accounts, and the addresses that need none."""

    global_white_addrs: list[str] | None = None
    plain_access_configs: list[PlainAccessConfig] | None = None
