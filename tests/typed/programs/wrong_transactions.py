"""Checks of transactions that do not answer."""

import hanabi


def check(message: hanabi.StoredMessage) -> str:
    return "commit"


producer = hanabi.TransactionProducer("shop", check=check, namesrv="127.0.0.1:9876")  # refused
