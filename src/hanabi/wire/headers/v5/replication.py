"""Headers of the requests between brokers of one name, since 5.x. Numbers are request codes."""

from hanabi.wire.header import Header, Int32, Int64


class NotifyMinBrokerIdChangeHeader(Header, frozen=True, kw_only=True):
    """905, name server to broker: the one with the smallest id, which acts as master, has changed."""

    min_broker_id: Int64 | None = None
    broker_name: str | None = None
    min_broker_addr: str | None = None
    offline_broker_addr: str | None = None
    ha_broker_addr: str | None = None


class ExchangeHAInfoHeader(Header, frozen=True, kw_only=True):
    """906: a starting broker exchanges replication facts with its peer."""

    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ExchangeHAInfoReplyHeader(Header, frozen=True, kw_only=True):
    master_ha_address: str | None = None
    master_flush_offset: Int64 | None = None
    master_address: str | None = None


class ResetMasterFlushOffsetHeader(Header, frozen=True, kw_only=True):
    """908: an administrator sets up to where a slave may copy."""

    master_flush_offset: Int64


class NotifyBrokerRoleChangedHeader(Header, frozen=True, kw_only=True):
    """1008, controller to broker: this is the master now."""

    master_address: str | None = None
    master_epoch: Int32 | None = None
    sync_state_set_epoch: Int32 | None = None
    master_broker_id: Int64 | None = None
