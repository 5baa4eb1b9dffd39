"""Numbers of the enums of `apache.rocketmq.v2`."""

from enum import IntEnum


class Code(IntEnum):
    """Codes of a `Status`."""

    OK = 20000
    MULTIPLE_RESULTS = 30000
    BAD_REQUEST = 40000
    ILLEGAL_TOPIC = 40002
    ILLEGAL_CONSUMER_GROUP = 40003
    ILLEGAL_MESSAGE_TAG = 40004
    ILLEGAL_MESSAGE_KEY = 40005
    ILLEGAL_MESSAGE_GROUP = 40006
    ILLEGAL_MESSAGE_PROPERTY_KEY = 40007
    INVALID_TRANSACTION_ID = 40008
    ILLEGAL_MESSAGE_ID = 40009
    ILLEGAL_FILTER_EXPRESSION = 40010
    ILLEGAL_INVISIBLE_TIME = 40011
    ILLEGAL_DELIVERY_TIME = 40012
    INVALID_RECEIPT_HANDLE = 40013
    MESSAGE_PROPERTY_CONFLICT_WITH_TYPE = 40014
    UNRECOGNIZED_CLIENT_TYPE = 40015
    CLIENT_ID_REQUIRED = 40017
    ILLEGAL_POLLING_TIME = 40018
    UNAUTHORIZED = 40100
    FORBIDDEN = 40300
    MESSAGE_NOT_FOUND = 40401
    TOPIC_NOT_FOUND = 40402
    CONSUMER_GROUP_NOT_FOUND = 40403
    MESSAGE_BODY_TOO_LARGE = 41301
    MESSAGE_BODY_EMPTY = 41302
    TOO_MANY_REQUESTS = 42900
    MESSAGE_PROPERTIES_TOO_LARGE = 43101
    INTERNAL_SERVER_ERROR = 50001
    HA_NOT_AVAILABLE = 50002
    NOT_IMPLEMENTED = 50100
    PROXY_TIMEOUT = 50400
    MASTER_PERSISTENCE_TIMEOUT = 50401
    SLAVE_PERSISTENCE_TIMEOUT = 50402


class ClientType(IntEnum):
    """Kinds of clients."""

    PRODUCER = 1
    PUSH_CONSUMER = 2
    SIMPLE_CONSUMER = 3


class MessageType(IntEnum):
    """Kinds of messages."""

    NORMAL = 1
    FIFO = 2
    DELAY = 3
    TRANSACTION = 4


class Permission(IntEnum):
    """Permissions of a queue."""

    NONE = 1
    READ = 2
    WRITE = 3
    READ_WRITE = 4


class FilterType(IntEnum):
    """Kinds of filter expressions."""

    TAG = 1
    SQL = 2


class AddressScheme(IntEnum):
    """Kinds of addresses."""

    IPV4 = 1
    IPV6 = 2
    DOMAIN_NAME = 3


class DigestType(IntEnum):
    """Digests of a body."""

    CRC32 = 1
    MD5 = 2
    SHA1 = 3


class Encoding(IntEnum):
    """Encodings of a body."""

    IDENTITY = 1
    GZIP = 2


class Resolution(IntEnum):
    """Ends of a transaction."""

    COMMIT = 1
    ROLLBACK = 2


class TransactionSource(IntEnum):
    """Origins of the end of a transaction."""

    CLIENT = 1
    SERVER_CHECK = 2


class RpcStatus(IntEnum):
    """Statuses of gRPC itself."""

    OK = 0
    CANCELLED = 1
    INVALID_ARGUMENT = 3
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    UNAUTHENTICATED = 16
