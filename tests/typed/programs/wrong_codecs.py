"""Codecs with bodies of another type."""

import msgspec

from hanabi import codecs


class Order(msgspec.Struct):
    """An order."""

    number: int


orders = codecs.Json(Order)
orders.encode("43")  # refused
number: int = orders.decode(b"{}")  # refused
