"""Start a name server, register a master and its slave, and ask for the route as a client does.

The name server is the real command in a process of its own; the brokers are a few lines that speak the
protocol. Ends by itself.
"""

import asyncio
import os
import signal
import sys
import tempfile
import time

from rich.console import Console
from rich.table import Table

from hanabi.errors import BrokerError
from hanabi.remoting.connector import Connector
from hanabi.remoting.loop import run
from hanabi.wire.bodies.route import TopicRoute
from hanabi.wire.bodies.topics import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from hanabi.wire.codes import RequestCode, ResponseCode
from hanabi.wire.fastjson import decode_body, encode_body
from hanabi.wire.headers.namesrv import GetRouteHeader, RegisterBrokerHeader, WipeWritePermHeader

out = Console(highlight=False, soft_wrap=True, width=100)


async def register(broker: Connector, namesrv: str, broker_id: int, address: str) -> None:
    """Say that a broker is there, and which topics it serves."""
    topic = TopicConfig(topic_name="Orders", read_queue_nums=4, write_queue_nums=4)
    body = RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigTable(
            topic_config_table={topic.topic_name: topic},
            data_version=DataVersion(counter=1, timestamp=int(time.time() * 1000)),
        )
    )
    header = RegisterBrokerHeader(
        broker_name="broker-a",
        broker_addr=address,
        cluster_name="DefaultCluster",
        ha_server_addr=f"{address[:-1]}2",
        broker_id=broker_id,
    )
    reply = await broker.request(namesrv, RequestCode.REGISTER_BROKER, header, encode_body(body))
    told = ", ".join(f"{name}={value}" for name, value in reply.fields().items()) or "nothing"
    out.print(f"registered broker-a with id {broker_id} at {address}; the name server tells it: {told}")


async def route(client: Connector, namesrv: str, topic: str) -> TopicRoute:
    """Who serves *topic*."""
    reply = await client.request(namesrv, RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteHeader(topic=topic))
    if reply.code != ResponseCode.SUCCESS:
        raise BrokerError.from_reply(reply.code, reply.remark, asked=f"route of {topic} from {namesrv}")
    return decode_body(reply.body, TopicRoute)


def show(topic: str, found: TopicRoute) -> None:
    table = Table(title=f"the route of {topic}")
    for column in ("broker", "cluster", "master", "slave", "queues", "permission"):
        table.add_column(column)
    for broker, queues in zip(found.broker_datas, found.queue_datas, strict=True):
        addresses = broker.broker_addrs
        permission = ("r" if queues.perm & 4 else "-") + ("w" if queues.perm & 2 else "-")
        hosts = addresses.get(0, "-"), addresses.get(1, "-")
        table.add_row(broker.broker_name, broker.cluster, *hosts, str(queues.write_queue_nums), permission)
    out.print(table)


async def tour(namesrv: str) -> None:
    master, slave, client = Connector(), Connector(), Connector()
    try:
        await register(master, namesrv, 0, "127.0.0.1:10911")
        await register(slave, namesrv, 1, "127.0.0.1:11911")
        show("Orders", await route(client, namesrv, "Orders"))

        await client.request(
            namesrv, RequestCode.WIPE_WRITE_PERM_OF_BROKER, WipeWritePermHeader(broker_name="broker-a")
        )
        out.print("an operator wiped the write permission of broker-a")
        show("Orders", await route(client, namesrv, "Orders"))

        await master.close()
        await slave.close()
        out.print("both brokers' connections were closed")
        while True:
            try:
                await route(client, namesrv, "Orders")  # the server hears of it a moment later
            except BrokerError as error:
                out.print(f"the route now: {str(error).splitlines()[0]}")
                return
    finally:
        for connector in (master, slave, client):
            await connector.close()


async def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        began = time.perf_counter()
        command = (sys.executable, "-m", "hanabi", "serve", "namesrv", "--home", home, "--host", "127.0.0.1")
        server = await asyncio.create_subprocess_exec(
            *command, "--port", "0", "--log-level", "warning", stdout=asyncio.subprocess.PIPE
        )
        assert server.stdout is not None
        try:
            ready = (await server.stdout.readline()).decode().strip()
            if not ready:
                sys.exit("the name server did not start")
            out.print(f"[bold]{ready}[/bold] after {time.perf_counter() - began:.2f} s, as process {server.pid}")
            await asyncio.wait_for(tour(ready.split()[-1]), timeout=30)
        finally:
            if server.returncode is None:
                os.kill(server.pid, signal.SIGTERM)
            code = await server.wait()
        out.print(f"the name server stopped with exit code {code}")


if __name__ == "__main__":
    run(main())
