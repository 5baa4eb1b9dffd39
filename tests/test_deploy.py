"""The files in deploy/ are for real use: every command, option, key, port and name in them is one that there is."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from hanabi.cli.main import app
from tests.cli.commands import log_as_before
from tests.interop.processes import ServerProcess
from tests.serving import serving

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
VARIABLES = {"$(POD_NAME)": "hanabi-broker-0", "$(POD_NAMESPACE)": "hanabi", "${HANABI_ADVERTISE:-broker}": "broker"}
DEADLINE_SECONDS = 60.0

Yaml = dict[str, Any]


def documents(path: Path) -> list[Yaml]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def exec_start(unit: Path) -> list[str]:
    text = unit.read_text().replace("\\\n", " ")
    (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
    program, *arguments = shlex.split(line.removesuffix("$HANABI_OPTIONS"))
    assert program == "/opt/hanabi/bin/hanabi"
    return arguments


def docker_command() -> list[str]:
    (line,) = re.findall(r"^CMD (\[.*\])$", (DEPLOY / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    return [str(word) for word in json.loads(line)]


def compose() -> Yaml:
    (document,) = documents(DEPLOY / "docker" / "compose.yaml")
    return document


def kubernetes(kind: str) -> list[Yaml]:
    return [
        document
        for path in sorted((DEPLOY / "kubernetes").glob("*.yaml"))
        for document in documents(path)
        if document["kind"] == kind
    ]


def pods() -> Iterator[tuple[str, Yaml]]:
    for workload in kubernetes("StatefulSet"):
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        yield workload["metadata"]["name"], container


def commands() -> Iterator[tuple[str, list[str], Path | None]]:
    """Yield where it stands, the arguments, and the configuration file that is there when it runs."""
    for unit in UNITS:
        name = "namesrv.conf" if "namesrv" in unit.name else "broker.conf"
        yield unit.name, exec_start(unit), ROOT / "conf" / name
    yield "Dockerfile", docker_command(), None
    for name, service in compose()["services"].items():
        if service.get("command", [""])[0] == "serve":
            yield f"compose {name}", service["command"], DEPLOY / "docker" / "broker.conf"
    for name, container in pods():
        yield f"kubernetes {name}", container["args"], DEPLOY / "kubernetes" / "broker.conf"


COMMANDS = list(commands())


def invoked(*words: str) -> Result:
    """Run a command, here."""
    with log_as_before():
        return CliRunner().invoke(app, words, prog_name="hanabi")


@pytest.mark.parametrize(("arguments", "file"), [each[1:] for each in COMMANDS], ids=[each[0] for each in COMMANDS])
def test_a_server_would_start_with_these_options_and_settings(
    arguments: list[str], file: Path | None, tmp_path: Path
) -> None:
    words = []
    for word in arguments:
        for variable, value in VARIABLES.items():
            word = word.replace(variable, value)
        words.append(str(file) if word.startswith("/etc/hanabi/") else word)
    result = invoked(*words, "--config", "--json")
    assert result.exit_code == 0, result.output
    sections = json.loads(result.stdout)
    without_effect = [
        setting["key"]
        for part in ("broker", "namesrv")
        for setting in sections.get(part, [])
        if setting["from"] == "file" and "effect" in setting.get("note", "")
    ]
    assert without_effect == []
    process = {setting["key"]: setting["value"] for setting in sections["process"]}
    assert process["--metrics-port"] is not None  # probes and Prometheus ask there


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_understands_the_unit(unit: Path, tmp_path: Path) -> None:
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text().replace("/opt/hanabi/bin/hanabi", sys.executable))
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert [line for line in result.stderr.splitlines() if unit.name in line] == []


def test_the_units_as_installed_give_a_broker_that_is_registered(tmp_path: Path) -> None:
    with unit_running("hanabi-namesrv", tmp_path) as (namesrv, _):
        place = namesrv.wait_for_line("ready namesrv ").split()[-1]
        with unit_running("hanabi-broker", tmp_path, {"127.0.0.1:9876": place}) as (broker, metrics):
            broker.wait_for_line("ready broker ")
            assert checks(metrics) == {"broker": "ok", "disk": "ok", "registered": "ok"}
            listed = invoked("cluster", "list", "--namesrv", place)
            assert "broker-a" in listed.output, listed.output
    with unit_running("hanabi", tmp_path) as (_, metrics):
        assert checks(metrics)["registered"] == "ok"


@contextmanager
def unit_running(name: str, root: Path, places: dict[str, str] | None = None) -> "Iterator[tuple[ServerProcess, str]]":
    """Yield the process that systemd would start, with files below *root* and free ports, and its port for
    operators."""
    text = (DEPLOY / "systemd" / f"{name}.service").read_text()
    environment = dict(line.split("=", 1) for line in re.findall(r"^Environment=(.*)$", text, re.MULTILINE))
    for key, value in environment.items():
        for old, new in (places or {}).items():
            environment[key] = value.replace(old, new)
    ports = ["--namesrv-port", "0", "--broker-port", "0"] if name == "hanabi" else ["--port", "0"]
    words = [*exec_start(DEPLOY / "systemd" / f"{name}.service"), *ports, "--host", "127.0.0.1", "--metrics-port", "0"]
    words = [word.replace("/etc/hanabi", str(ROOT / "conf")).replace("/var/lib", str(root / "var")) for word in words]
    clean = {key: value for key, value in os.environ.items() if key != "NAMESRV_ADDR"}
    command = [sys.executable, "-m", "hanabi", *words]
    process = ServerProcess(name, command, root / f"{name}.log", {**clean, **environment})
    try:
        yield process, process.wait_for_line("ready metrics ").split()[-1]
    finally:
        process.kill()


def checks(address: str) -> dict[str, str]:
    """Return what the page /ready says."""
    connection = HTTPConnection(address, timeout=DEADLINE_SECONDS)
    connection.request("GET", "/ready")
    found: dict[str, str] = json.loads(connection.getresponse().read())["checks"]
    connection.close()
    return found


# Docker


def test_what_the_image_copies_is_there_and_is_let_into_the_build() -> None:
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    allowed = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().split()
    sources = [word for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE) for word in line.split()[:-1]]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in allowed or f"!{source.split('/')[0]}" in allowed, source
    (extras,) = re.findall(r"'\.\[([\w,]+)\]'", text)
    assert all(f"\n{extra} = [" in (ROOT / "pyproject.toml").read_text() for extra in extras.split(","))


def test_what_compose_mounts_is_there_and_what_it_waits_for_too() -> None:
    document = compose()
    for name, service in document["services"].items():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            if source.startswith("."):
                assert (DEPLOY / "docker" / source).exists(), f"{name}: {source}"
            else:
                assert source in document["volumes"], f"{name}: {source}"
        for other in service.get("depends_on", {}):
            assert other in document["services"]
    broker = document["services"]["broker"]["command"]
    assert broker[broker.index("--namesrv") + 1] == "namesrv:9876"
    (config,) = documents(DEPLOY / "prometheus" / "prometheus.yml")
    targets = config["scrape_configs"][0]["static_configs"][0]["targets"]
    assert {target.split(":")[0] for target in targets} <= document["services"].keys()
    assert all((DEPLOY / "prometheus" / name).exists() for name in config["rule_files"])


def test_the_samples_send_and_consume_until_they_are_stopped(tmp_path: Path) -> None:
    samples = DEPLOY / "docker" / "samples"
    with serving(tmp_path) as cluster:
        producer = started(samples / "producer.py", cluster.namesrv, "0.05")
        consumer = started(samples / "consumer.py", cluster.namesrv)
        with producer, consumer:
            try:
                assert producer.stdout is not None
                assert consumer.stdout is not None
                assert " sent: broker-a/" in producer.stdout.readline()
                assert consumer.stdout.readline().startswith('billed {"order": ')
                for process in (producer, consumer):
                    process.send_signal(signal.SIGTERM)
                    assert process.wait(DEADLINE_SECONDS) == 0
            finally:
                producer.kill()
                consumer.kill()


def started(program: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, str(program), *arguments], stdout=subprocess.PIPE, text=True)


def test_the_health_check_says_no_when_nobody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("METRICS_PORT", "1")
    program = DEPLOY / "docker" / "health.py"
    result = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("/health: ")


# Kubernetes


def test_the_kustomization_has_all_manifests_and_the_settings() -> None:
    folder = DEPLOY / "kubernetes"
    (kustomization,) = documents(folder / "kustomization.yaml")
    there = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == there
    generated = {each["name"] for each in kustomization["configMapGenerator"]}
    for each in kustomization["configMapGenerator"]:
        assert all((folder / file).exists() for file in each["files"])
    for workload in kubernetes("StatefulSet"):
        for volume in workload["spec"]["template"]["spec"].get("volumes", []):
            assert volume["configMap"]["name"] in generated


def test_services_budgets_and_probes_find_their_pods() -> None:
    workloads = {each["metadata"]["name"]: each for each in kubernetes("StatefulSet")}
    labels = {name: each["spec"]["template"]["metadata"]["labels"] for name, each in workloads.items()}
    services = {each["metadata"]["name"]: each for each in kubernetes("Service")}
    for name, workload in workloads.items():
        assert workload["spec"]["selector"]["matchLabels"].items() <= labels[name].items()
        service = services[workload["spec"]["serviceName"]]
        assert service["spec"]["clusterIP"] == "None"
        assert service["spec"]["selector"].items() <= labels[name].items()
        (container,) = workload["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports.keys()
        assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": "metrics"}
        assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "metrics"}
        assert str(ports["metrics"]) == container["args"][container["args"].index("--metrics-port") + 1]
        annotations = workload["spec"]["template"]["metadata"]["annotations"]
        assert annotations["prometheus.io/port"] == str(ports["metrics"])
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        claims = {claim["metadata"]["name"] for claim in workload["spec"]["volumeClaimTemplates"]}
        volumes = {volume["name"] for volume in workload["spec"]["template"]["spec"].get("volumes", [])}
        assert mounts == claims | volumes
    for budget in kubernetes("PodDisruptionBudget"):
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels[budget["metadata"]["name"]].items()


def test_a_broker_advertises_the_name_that_its_service_gives_it_and_knows_all_name_servers() -> None:
    containers = dict(pods())
    arguments = containers["hanabi-broker"]["args"]
    advertised = arguments[arguments.index("--advertise") + 1]
    assert advertised == "$(POD_NAME).hanabi-broker.$(POD_NAMESPACE).svc.cluster.local"
    environment = {each["name"]: each.get("value") for each in containers["hanabi-broker"]["env"]}
    assert {"POD_NAME", "POD_NAMESPACE"} <= environment.keys()
    (namesrv,) = (each for each in kubernetes("StatefulSet") if each["metadata"]["name"] == "hanabi-namesrv")
    names = [f"hanabi-namesrv-{number}.hanabi-namesrv:9876" for number in range(namesrv["spec"]["replicas"])]
    assert environment["NAMESRV_ADDR"] == ";".join(names)


# Prometheus and Grafana


def test_every_alert_says_what_it_is_and_what_to_do() -> None:
    (document,) = documents(DEPLOY / "prometheus" / "alerts.yml")
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"].keys() == {"summary", "action"}


def test_the_dashboard_is_what_its_program_writes() -> None:
    program = DEPLOY / "grafana" / "make_dashboard.py"
    made = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, check=True).stdout
    assert made == (DEPLOY / "grafana" / "hanabi.json").read_text()
    panels = json.loads(made)["panels"]
    assert len({(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}) == len(panels)
