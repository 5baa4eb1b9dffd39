"""Headers of access control: the credentials that any request may carry, and the requests that change the rules.

Numbers are request codes: 50 to 53 of 4.9.8, 3001 to 3010 of 5.x, whose bodies are the user or the rules.
"""

from msgspec import field

from hanabi.wire.header import Header


class CredentialsHeader(Header, frozen=True, kw_only=True):
    """Not a request: the fields that Java's AclClientRPCHook adds to every one."""

    access_key: str | None = field(default=None, name="AccessKey")
    signature: str | None = field(default=None, name="Signature")
    security_token: str | None = field(default=None, name="SecurityToken")


class CreateAccessConfigHeader(Header, frozen=True, kw_only=True):
    """50: make or change an account."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None  # name=PERM, separated by commas; so are the groups'
    group_perms: str | None = None


class DeleteAccessConfigHeader(Header, frozen=True, kw_only=True):
    """51: forget an account."""

    access_key: str


class GetBrokerAclInfoReplyHeader(Header, frozen=True, kw_only=True):
    """52: which version of the rules this broker has."""

    version: str  # the JSON of a DataVersion
    broker_name: str
    broker_addr: str
    cluster_name: str
    all_acl_file_version: str | None = None  # the JSON of a map, from file to DataVersion


class UpdateGlobalWhiteAddrsHeader(Header, frozen=True, kw_only=True):
    """53: the addresses that need no credentials."""

    global_white_addrs: str
    acl_file_full_path: str | None = None  # Java calls it required, and its own mqadmin may leave it out


class UserHeader(Header, frozen=True, kw_only=True):
    """3001 to 3004, 5.x: create, update, delete, get a user."""

    username: str | None = None


class ListUsersHeader(Header, frozen=True, kw_only=True):
    """3005, 5.x."""

    filter: str | None = None


class AclHeader(Header, frozen=True, kw_only=True):
    """3006, 3007 and 3009, 5.x: create, update, get the rules for a subject."""

    subject: str | None = None


class DeleteAclHeader(Header, frozen=True, kw_only=True):
    """3008, 5.x: forget rules for a subject."""

    subject: str | None = None
    policy_type: str | None = None
    resource: str | None = None


class ListAclsHeader(Header, frozen=True, kw_only=True):
    """3010, 5.x."""

    subject_filter: str | None = None
    resource_filter: str | None = None
