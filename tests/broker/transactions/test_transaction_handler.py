"""END_TRANSACTION and CHECK_TRANSACTION_STATE over a real connection."""

import asyncio
from pathlib import Path

from hanabi.broker.clients.client import Client
from hanabi.broker.clients.producers import Producers
from hanabi.broker.handlers.transaction import transaction_handlers
from hanabi.broker.transactions.transactions import Transactions
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.header import NoHeader
from hanabi.wire.headers.transaction import CheckTransactionStateHeader, EndTransactionHeader
from hanabi.wire.message.record import decode_record
from tests.broker.talk import connected, serving
from tests.broker.transactions.world import COMMIT, GROUP, World


def end_header(offset: int, log_offset: int, how: int, **more: object) -> EndTransactionHeader:
    return EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=offset,
        commit_log_offset=log_offset,
        commit_or_rollback=how,
        msg_id="K1",
        **more,  # type: ignore[arg-type]
    )


async def test_a_producer_ends_its_transaction(world: World) -> None:
    half = world.send()
    async with (
        serving(transaction_handlers(world.transactions, world.settings)) as address,
        connected(address) as peer,
    ):
        wrong = await peer.ask(RequestCode.END_TRANSACTION, end_header(7, half.log_offset, COMMIT))
        right = await peer.ask(RequestCode.END_TRANSACTION, end_header(0, half.log_offset, COMMIT))
        broken = await peer.ask(RequestCode.END_TRANSACTION, {"producerGroup": GROUP})
    assert (wrong.code, wrong.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "The transaction state table offset wrong",
    )
    assert right.code == ResponseCode.SUCCESS
    assert broken.code != ResponseCode.SUCCESS

    assert world.bodies() == [b"hello"]


async def test_a_slave_ends_no_transactions(tmp_path: Path) -> None:
    world = World(tmp_path / "store", broker_role="SLAVE", broker_id=1)
    half = world.send()
    async with (
        serving(transaction_handlers(world.transactions, world.settings)) as address,
        connected(address) as peer,
    ):
        reply = await peer.ask(RequestCode.END_TRANSACTION, end_header(0, half.log_offset, COMMIT))
        assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE

    assert world.bodies() == []
    world.close()


async def test_a_connected_producer_is_asked_and_its_answer_ends_the_transaction(tmp_path: Path) -> None:
    # With the real table of producers, and the background work that asks.
    world = World(tmp_path / "store", transaction_check_interval_ms=1)
    world.send()
    world.clock.ms += 60_000
    producers = Producers(world.clock)
    transactions = Transactions(
        world.store, world.intake, world.offsets, producers, world.topics, world.settings, world.clock
    )

    def join(_: NoHeader, __: Command, connection: Connection) -> Reply:
        producers.heartbeat(Client("c1", connection, "JAVA", 0), GROUP)
        return Reply()

    handlers = transaction_handlers(transactions, world.settings)
    handlers[RequestCode.HEART_BEAT] = Handler(NoHeader, join)
    async with serving(handlers) as address, connected(address) as peer:
        await peer.ask(RequestCode.HEART_BEAT)
        asking = asyncio.create_task(transactions.run())
        request = await peer.request()
        assert request.code == RequestCode.CHECK_TRANSACTION_STATE
        assert request.is_oneway
        asked = request.header(CheckTransactionStateHeader)
        record = decode_record(request.body)
        assert record.body == b"hello"
        assert record.log_offset == asked.commit_log_offset
        end = end_header(asked.tran_state_table_offset, asked.commit_log_offset, COMMIT, from_transaction_check=True)
        assert (await peer.ask(RequestCode.END_TRANSACTION, end)).code == ResponseCode.SUCCESS
        asking.cancel()
        await asyncio.wait((asking,))

    assert world.bodies() == [b"hello"]
    world.close()


async def test_a_round_that_fails_is_not_the_last(tmp_path: Path) -> None:
    world = World(tmp_path / "store", transaction_check_interval_ms=1)
    world.send()
    world.clock.ms += 60_000
    asked_twice = asyncio.Event()
    attempts = 0

    class Broken:
        def pick(self, group: str) -> None:
            nonlocal attempts
            attempts += 1
            if attempts == 2:
                asked_twice.set()
            world.clock.ms += 60_000
            raise RuntimeError("a fault of ours")

    transactions = Transactions(
        world.store, world.intake, world.offsets, Broken(), world.topics, world.settings, world.clock
    )
    asking = asyncio.create_task(transactions.run())
    async with asyncio.timeout(60):
        await asked_twice.wait()
    asking.cancel()
    await asyncio.wait((asking,))

    world.close()
