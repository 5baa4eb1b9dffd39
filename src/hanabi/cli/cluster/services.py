"""Services of an orchestrator as places: servers reach each other by name."""

from enum import StrEnum

from hanabi.cli.cluster.forms import Form


class Output(StrEnum):
    """What a plan becomes."""

    FILES = "files"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"


class Services:
    """Places of servers that reach each other by name. Brokers of a container have its name."""

    def __init__(self, form: Form) -> None:
        self._form = form

    def address(self, host: int, server: str) -> str:
        if not server.startswith("broker"):
            return server
        return {Form.CROSSED: f"container-{host + 1}", Form.ONE_HOST: "container"}.get(self._form, server)

    def port(self, host: int, server: str, usual: int) -> int:
        return usual

    def file(self, host: int, server: str) -> str:
        return f"/etc/hanabi/{server}.conf"

    def data(self, host: int, server: str) -> str:
        return f"/data/{server}"
