"""The client library: asyncio inside, with a blocking face. Public names are in `hanabi` and `hanabi.aio`."""
