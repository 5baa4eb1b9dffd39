"""Codecs of bodies: a model goes in, a model comes out."""

import msgspec

import hanabi
from hanabi import codecs


class Order(msgspec.Struct):
    """An order."""

    number: int


orders = codecs.Json(Order)
body: bytes = orders.encode(Order(43))
order: Order = orders.decode(body)
hanabi.Message("Orders", body)
