"""The broker's table of contents: which file answers which requests. The codes themselves are in those files.

    send.py           send, batch, V2                       10, 310, 320
    send_back.py      a consumer sends a message back       36
    reply.py          the answer of request-reply           324, 325
    pull.py           pull, and its 5.x form                11, 361
    pop/messages.py   pop, peek, notification (5.x)         200050, 200052, 200054, 200055
    pop/acks.py       acknowledgements of POP (5.x)         200051, 200053, 200151
    pop/assignments.py   queues, modes of groups (5.x)      400, 401
    offsets.py        offsets of groups and of queues       14, 15, 29 to 32
    clients.py        heartbeats, members, queue locks      34, 35, 38, 41, 42, 46
    client_calls.py   operators' requests to clients        222, 223, 307, 309
    transaction.py    the end of a transaction              37
    recall.py         recall of a timed message (5.x)       370
    query.py          messages by key and by id             12, 33
    replication.py    state of replication (5.x)            906 to 908
    slave_tables.py   tables that only slaves ask for       60, 61, 402
    admin/            everything else: see handlers/admin/table.py

With `aclEnable` a gate is in front of all of them: see access_control.py.

A handler gets only the parts that it needs, never the broker. Requests that store or read messages are answered at
once; those of operators, and heartbeats, are queued (`remoting/connection/turns.py`).
"""

from collections.abc import Awaitable, Callable

from hanabi.broker.handlers.admin.support.table_merge import join_handlers
from hanabi.broker.handlers.admin.table import admin_handlers
from hanabi.broker.handlers.client_calls import client_call_handlers
from hanabi.broker.handlers.clients import client_handlers
from hanabi.broker.handlers.offsets import offset_handlers
from hanabi.broker.handlers.pop.acks import pop_ack_handlers
from hanabi.broker.handlers.pop.assignments import Routes, assignment_handlers
from hanabi.broker.handlers.pop.messages import PopAccess, pop_handlers
from hanabi.broker.handlers.pull import pull_handlers
from hanabi.broker.handlers.query import query_handlers
from hanabi.broker.handlers.recall import recall_handlers
from hanabi.broker.handlers.replication import replication_handlers
from hanabi.broker.handlers.reply import reply_handlers
from hanabi.broker.handlers.send import send_handlers
from hanabi.broker.handlers.send_back import send_back_handlers
from hanabi.broker.handlers.slave_tables import slave_table_handlers
from hanabi.broker.handlers.transaction import transaction_handlers
from hanabi.broker.parts import Services, Tables
from hanabi.remoting.connection.dispatch import Handler
from hanabi.remoting.connection.turns import with_turns
from hanabi.store.message_store import MessageStore
from hanabi.wire.bodies.ha_status import HAStatus


def broker_handlers(
    tables: Tables,
    store: MessageStore,
    services: Services,
    *,
    store_host: bytes,
    address: str,
    ha_address: str,
    ha_status: Callable[[], HAStatus],
    first_end_offset: int,
    registered: Callable[[], Awaitable[None]],
    routes: Routes,
    now_ms: Callable[[], int],
) -> dict[int, Handler]:
    """Return the handlers of all request codes. *store_host* is the address that messages carry, *address* the one that
    clients were given, *ha_address* the one for slaves; *first_end_offset* is the end of the log when the broker
    started; *registered* waits until the name servers know the newest topics; *routes* returns the queues of a topic on
    all brokers."""
    settings, topics, groups, offsets = tables.settings, tables.topics, tables.groups, tables.offsets
    stats, producers, consumers = tables.stats, tables.producers, tables.consumers
    intake, flow, transactions = services.intake, services.flow, services.transactions
    pop, pop_access = services.pop, PopAccess(topics, groups, services.pull_filters, settings)
    return join_handlers(
        send_handlers(intake, topics, groups, settings, flow, store_host, transactions, now_ms=now_ms),
        send_back_handlers(store, intake, topics, groups, settings, stats, flow, store_host),
        reply_handlers(intake, topics, settings, store_host, producers.find_client, now_ms),
        pull_handlers(store, services.pull_access, services.commits, tables.held_pulls, stats, settings, now_ms),
        pop_handlers(pop, pop_access, stats, now_ms),
        pop_ack_handlers(pop, pop_access, store.reader, topics, settings),
        with_turns(assignment_handlers(consumers, topics, groups, tables.request_modes, routes, settings)),
        offset_handlers(store, topics, groups, offsets, services.commits),
        transaction_handlers(transactions, settings),
        recall_handlers(intake, topics, settings, store_host, now_ms),
        with_turns(client_handlers(producers, consumers, tables.locks, topics, groups, settings)),
        with_turns(
            client_call_handlers(
                services.client_calls, services.offset_reset, offsets, store.queries.record, topics, groups, settings
            )
        ),
        query_handlers(store, settings, services.queries),
        with_turns(
            replication_handlers(
                ha_status, settings, address=address, ha_address=ha_address, first_end_offset=first_end_offset
            )
        ),
        with_turns(
            slave_table_handlers(settings, services.timer_checkpoint, tables.timer_metrics, tables.request_modes)
        ),
        with_turns(
            admin_handlers(
                settings=settings,
                topics=topics,
                groups=groups,
                offsets=offsets,
                store=store,
                stats=stats,
                producers=producers,
                consumers=consumers,
                locks=tables.locks,
                filters=tables.filters,
                transactions=transactions,
                handed_out_to=services.pop.flights.next_offset,
                delay_offsets=lambda: services.delivery.table().offset_table,
                copied=lambda: services.copied if settings.is_slave else None,
                registered=registered,
                wait_ms=lambda: flow.late_ms,
                now_ms=now_ms,
                address=address,
            )
        ),
    )
