"""Registrations of brokers, in short."""

from hanabi.wire.bodies.topics import DataVersion, TopicConfig, TopicConfigTable
from hanabi.wire.headers.namesrv import RegisterBrokerHeader, UnregisterBrokerHeader


def registration(
    address: str,
    name: str = "broker-a",
    broker_id: int = 0,
    *,
    cluster: str = "C",
    timeout_ms: int | None = None,
    acting: bool | None = None,
) -> RegisterBrokerHeader:
    return RegisterBrokerHeader(
        broker_name=name,
        broker_addr=address,
        cluster_name=cluster,
        ha_server_addr=f"ha-of-{address}",
        broker_id=broker_id,
        heartbeat_timeout_millis=timeout_ms,
        enable_acting_master=acting,
    )


def unregistration(
    address: str, name: str = "broker-a", broker_id: int = 0, *, cluster: str = "C"
) -> UnregisterBrokerHeader:
    return UnregisterBrokerHeader(broker_name=name, broker_addr=address, cluster_name=cluster, broker_id=broker_id)


def topics(
    *names: str, version: int = 1, queues: int = 4, perm: int = 6, flag: int = 0, term: int = 0
) -> TopicConfigTable:
    return TopicConfigTable(
        data_version=DataVersion(counter=version, timestamp=1000, state_version=term),
        topic_config_table={
            name: TopicConfig(
                topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm, topic_sys_flag=flag
            )
            for name in names
        },
    )
