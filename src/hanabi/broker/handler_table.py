"""The broker's table of contents: which file answers which requests. The codes themselves are in those files.

    send.py           send, batch, V2                       10, 310, 320
    send_back.py      a consumer sends a message back       36
    reply.py          the answer of request-reply           324, 325
    pull.py           pull, and its 5.x form                11, 361
    offsets.py        offsets of groups and of queues       14, 15, 29 to 32
    clients.py        heartbeats, members, queue locks      34, 35, 38, 41, 42, 46
    client_calls.py   operators' requests to clients        222, 223, 307, 309
    transaction.py    the end of a transaction              37
    query.py          messages by key and by id             12, 33
    admin/            everything else: see handlers/admin/table.py

A handler gets only the parts that it needs, never the broker. Requests that store or read messages are answered at
once; those of operators, and heartbeats, are queued (`remoting/connection/turns.py`).
"""

from collections.abc import Awaitable, Callable

from hanabi.broker.handlers.admin.table import admin_handlers
from hanabi.broker.handlers.client_calls import client_call_handlers
from hanabi.broker.handlers.clients import client_handlers
from hanabi.broker.handlers.offsets import offset_handlers
from hanabi.broker.handlers.pull import pull_handlers
from hanabi.broker.handlers.query import query_handlers
from hanabi.broker.handlers.reply import reply_handlers
from hanabi.broker.handlers.send import send_handlers
from hanabi.broker.handlers.send_back import send_back_handlers
from hanabi.broker.handlers.table_merge import join_handlers
from hanabi.broker.handlers.transaction import transaction_handlers
from hanabi.broker.parts import Services, Tables
from hanabi.remoting.connection.dispatch import Handler
from hanabi.remoting.connection.turns import taking_turns
from hanabi.store.message_store import MessageStore


def broker_handlers(
    tables: Tables,
    store: MessageStore,
    services: Services,
    *,
    store_host: bytes,
    address: str,
    registered: Callable[[], Awaitable[None]],
    now_ms: Callable[[], int],
) -> dict[int, Handler]:
    """Return the handlers of all request codes. *store_host* is the address that messages carry, *address* the one that
    clients were given; *registered* waits until the name servers know the newest topics."""
    settings, topics, groups, offsets = tables.settings, tables.topics, tables.groups, tables.offsets
    stats, producers, consumers = tables.stats, tables.producers, tables.consumers
    intake, flow, transactions = services.intake, services.flow, services.transactions
    return join_handlers(
        send_handlers(intake, topics, groups, settings, flow, store_host, transactions, now_ms=now_ms),
        send_back_handlers(store, intake, topics, groups, settings, stats, flow, store_host),
        reply_handlers(intake, topics, settings, store_host, producers.find_client, now_ms),
        pull_handlers(store, services.pull_access, services.commits, tables.held_pulls, stats, settings, now_ms),
        offset_handlers(store, topics, groups, offsets, services.commits),
        transaction_handlers(transactions, settings),
        taking_turns(client_handlers(producers, consumers, tables.locks, topics, groups, settings)),
        taking_turns(
            client_call_handlers(
                services.client_calls, services.offset_reset, offsets, store.queries.record, topics, groups, settings
            )
        ),
        query_handlers(store, settings, services.queries),
        taking_turns(
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
                delay_offsets=lambda: services.delivery.table().offset_table,
                registered=registered,
                wait_ms=lambda: flow.late_ms,
                now_ms=now_ms,
                address=address,
            )
        ),
    )
