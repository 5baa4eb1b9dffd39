"""A blocking producer that is used wrongly."""

import hanabi

producer = hanabi.Producer("shop", namesrv=9876)  # refused
producer = hanabi.Producer("shop", retrys=3)  # refused
producer = hanabi.Producer(group=7)  # refused
producer.send("Orders")  # refused
producer.send(hanabi.Message("Orders", "text in place of bytes"))  # refused
producer.send(hanabi.Message("Orders", b"x", delay=5))  # refused
