"""Access control, as operators see it.

Agrees with Java's AclConfig and PlainAccessConfig of 4.9, and with UserInfo and AclInfo of 5.x.
"""

from hanabi.wire.body import Body, always_written


class PlainAccessConfig(Body, frozen=True, kw_only=True):
    """The permissions of one account."""

    access_key: str | None = None
    admin: bool = always_written(False)
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


class UserInfo(Body, frozen=True, kw_only=True):
    """A user of 5.x: in requests the keys to change, in replies all of them.

    `keep_previous` is ours, of an update: the old password stays valid with a new one, until it is false.
    """

    keep_previous: bool | None = None
    password: str | None = None
    user_status: str | None = None
    user_type: str | None = None
    username: str | None = None


class PolicyEntryInfo(Body, frozen=True, kw_only=True):
    """Permission or prohibition on one resource, by source address."""

    actions: list[str] | None = None
    decision: str | None = None
    resource: str | None = None
    source_ips: list[str] | None = None


class PolicyInfo(Body, frozen=True, kw_only=True):
    """Entries of one type, Custom or Default."""

    entries: list[PolicyEntryInfo] | None = None
    policy_type: str | None = None


class AclInfo(Body, frozen=True, kw_only=True):
    """All policies of one subject, "User:name"."""

    policies: list[PolicyInfo] | None = None
    subject: str | None = None
