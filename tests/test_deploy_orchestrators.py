"""Compose files and manifests of the forms: what `hanabi cluster plan` makes, and of a shape that works."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from hanabi.cli.cluster.forms import Asked, Form, every_file, planned, usual_hosts
from hanabi.cli.cluster.orchestrators import metrics_port
from hanabi.cli.cluster.services import Services
from hanabi.wire.java_properties import decode_properties
from tests.cli.admin_commands import run
from tests.cli.commands import refused

DEPLOY = Path(__file__).parent.parent / "deploy"
ADDRESS = re.compile(r"^[a-z][a-z0-9-]*:\d+(;[a-z][a-z0-9-]*:\d+)*$")

forms = pytest.mark.parametrize("form", Form, ids=lambda form: form.value)


def compose(form: Form) -> Any:
    return yaml.safe_load((DEPLOY / "docker" / "forms" / f"{form.value}.yaml").read_text())


def manifests(form: Form, kind: str) -> dict[str, Any]:
    text = (DEPLOY / "kubernetes" / "forms" / f"{form.value}.yaml").read_text()
    found = [document for document in yaml.safe_load_all(text) if document["kind"] == kind]
    return {document["metadata"]["name"]: document for document in found}


def check_addresses(files: dict[str, str], services: set[str]) -> None:
    """Check that every server that a file names is a service."""
    for name, text in files.items():
        settings = decode_properties(text.encode())
        for key in ("namesrvAddr", "controllerAddr"):
            if key in settings:
                assert ADDRESS.fullmatch(settings[key]), f"{name}: {key}"
                assert {address.partition(":")[0] for address in settings[key].split(";")} <= services
        if "brokerIP1" in settings:
            assert settings["brokerIP1"] in services


@forms
@pytest.mark.parametrize(("folder", "kind"), [("docker", "compose"), ("kubernetes", "kubernetes")])
def test_the_file_is_what_the_plan_makes(form: Form, folder: str, kind: str) -> None:
    made = run("cluster", "plan", form.value, "--as", kind)
    assert made.returncode == 0, made.stderr
    assert made.stdout == (DEPLOY / folder / "forms" / f"{form.value}.yaml").read_text()


@forms
def test_a_compose_file_mounts_what_it_has_and_names_services_that_there_are(form: Form) -> None:
    document = compose(form)
    services = document["services"]
    check_addresses({name: each["content"] for name, each in document["configs"].items()}, set(services))
    assert all("$" not in each["content"] for each in document["configs"].values())  # compose would replace it
    used = {mount["source"] for service in services.values() for mount in service["configs"]}
    assert used == set(document["configs"])
    for name, service in services.items():
        command = service["command"]
        targets = [mount["target"] for mount in service["configs"]]
        assert command[command.index("-c") + 1] == targets[0]
        assert command[command.index("--home") + 1].startswith("/data/")
        assert service["volumes"] == [f"{name}-data:/data"]
        assert f"{name}-data" in document["volumes"]


@forms
def test_manifests_fit_together(form: Form) -> None:
    services, maps, sets = (manifests(form, kind) for kind in ("Service", "ConfigMap", "StatefulSet"))
    assert services.keys() == maps.keys() == sets.keys()
    for name, workload in sets.items():
        check_addresses(maps[name]["data"], set(services))
        assert re.fullmatch(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", name)
        template, spec = workload["spec"]["template"], workload["spec"]["template"]["spec"]
        selector = workload["spec"]["selector"]["matchLabels"]
        assert selector == services[name]["spec"]["selector"]
        assert selector.items() <= template["metadata"]["labels"].items()
        assert services[name]["spec"]["clusterIP"] == "None"
        assert workload["spec"]["serviceName"] == name
        (container,) = spec["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert len(set(ports.values())) == len(ports)
        assert all(len(port) <= 15 for port in ports)
        assert {port["targetPort"] for port in services[name]["spec"]["ports"]} == set(ports)
        assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "metrics"}
        assert {mount["name"] for mount in container["volumeMounts"]} == {"data", "config"}
        assert spec["volumes"] == [{"name": "config", "configMap": {"name": name}}]
        config = container["args"][container["args"].index("-c") + 1]
        assert config.removeprefix("/etc/hanabi/") in maps[name]["data"]


@forms
def test_probes_ask_the_port_that_the_server_opens(form: Form) -> None:
    servers = planned(form, Services(form), Asked(hosts=usual_hosts(form)))
    for server in servers:
        words = compose(form)["services"][server.name]["command"]
        if "--metrics-port" in words:
            assert int(words[words.index("--metrics-port") + 1]) == metrics_port(server)
        else:
            offset = int(words[words.index("--metrics-offset") + 1])
            ports = [int(each.settings["listenPort"]) for each in server.members]
            assert ports[0] + offset == metrics_port(server)
            around = {port + distance for port in ports for distance in (-2, 0, 1)}
            assert not around & {port + offset for port in ports}
    assert len({each.file for each in every_file(servers)}) == len(every_file(servers))


def test_options_that_have_no_meaning_for_an_orchestrator_are_refused() -> None:
    assert "takes no --host" in refused(run("cluster", "plan", "one-host", "--as", "compose", "--host", "a"), 2)
    assert "--as must be files, compose or kubernetes" in refused(run("cluster", "plan", "one-host", "--as", "helm"), 2)
