"""END_TRANSACTION: commit or rollback by the producer. Agrees with EndTransactionProcessor (4.9.8)."""

from hanabi.broker.settings import Settings
from hanabi.broker.transactions.transactions import Transactions
from hanabi.remoting.connection.dispatch import Handler, Reply
from hanabi.remoting.connection.protocol import Connection
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.command import Command
from hanabi.wire.headers.transaction import EndTransactionHeader


def transaction_handlers(transactions: Transactions, settings: Settings) -> dict[int, Handler]:
    def end(header: EndTransactionHeader, _: Command, connection: Connection) -> Reply:
        if settings.is_slave:
            return Reply(ResponseCode.SLAVE_NOT_AVAILABLE, "a slave does not end transactions")
        return transactions.end(header)

    return {RequestCode.END_TRANSACTION: Handler(EndTransactionHeader, end)}
