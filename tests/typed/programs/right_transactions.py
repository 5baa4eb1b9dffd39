"""Transactions: the outcome is a word."""

import hanabi


def check(message: hanabi.StoredMessage) -> hanabi.TransactionState:
    return hanabi.TransactionState.COMMIT if message.body else hanabi.TransactionState.ROLLBACK


with hanabi.TransactionProducer("shop", check=check, namesrv="127.0.0.1:9876") as producer:
    print(producer.group)
