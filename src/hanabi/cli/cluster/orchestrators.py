"""A plan as a compose file or as Kubernetes manifests: each server is a service, whose name is its address. Pure."""

from collections.abc import Iterator
from typing import Any, Final

import yaml

from hanabi.cli.cluster.forms import Form, Kind, Server, every_file, file_text
from hanabi.cli.cluster.services import Output

IMAGE: Final = "hanabi:latest"
METRICS_PORT: Final = 9_464
METRICS_OFFSET: Final = 20  # of brokers in a container: beyond the ports of the next one
USER: Final = 10_001
FORM_LABEL: Final = "hanabi.form"
NAME_LABEL: Final = "app.kubernetes.io/name"

Yaml = dict[str, Any]


def rendered(form: Form, servers: list[Server], output: Output) -> str:
    """Return the text of one file."""
    head = f"# Made by: hanabi cluster plan {form.value} --as {output.value}\n"
    if output is Output.COMPOSE:
        return head + _text(_compose(form, servers))
    documents = [document for server in servers for document in _manifests(form, server)]
    return head + "---\n".join(_text(document) for document in documents)


def _text(document: Yaml) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=110)


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        """Return the node of a text."""
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)

    def ignore_aliases(self, data: Any) -> bool:
        """Return True: a file without anchors is easier to read."""
        return True


_Dumper.add_representer(str, _Dumper.represent_str)


def _words(server: Server) -> list[str]:
    """Return the command line, with the log on stderr and a port for probes."""
    if server.kind is Kind.CONTAINER:
        metrics = ["--metrics-offset", str(METRICS_OFFSET)]
    else:
        metrics = ["--metrics-port", str(METRICS_PORT)]
    return [*server.command, "--no-log-file", "--log-json", *metrics]


def metrics_port(server: Server) -> int:
    """Return the port of /ready: in a container that of its first broker."""
    if server.kind is Kind.CONTAINER:
        return int(server.members[0].settings["listenPort"]) + METRICS_OFFSET
    return METRICS_PORT


# ---- compose -----------------------------------------------------------------------------------------------------


def _compose(form: Form, servers: list[Server]) -> Yaml:
    return {
        "name": f"hanabi-{form.value}",
        "services": {server.name: _service(server) for server in servers},
        "configs": {each.name: {"content": file_text(each)} for each in every_file(servers)},
        "volumes": {f"{server.name}-data": {} for server in servers},
    }


def _service(server: Server) -> Yaml:
    return {
        "image": IMAGE,
        "command": _words(server),
        "restart": "unless-stopped",
        "read_only": True,
        "tmpfs": ["/tmp"],  # noqa: S108 - of the container
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "stop_grace_period": "60s",
        "environment": {"METRICS_PORT": str(metrics_port(server))},
        "configs": [{"source": each.name, "target": each.file} for each in (server, *server.members)],
        "volumes": [f"{server.name}-data:/data"],
        "healthcheck": {
            "test": ["CMD", "python", "/opt/hanabi/health.py", "/ready"],
            "interval": "5s",
            "timeout": "3s",
            "start_period": "300s",
            "retries": 3,
        },
    }


# ---- Kubernetes --------------------------------------------------------------------------------------------------


def _ports(server: Server) -> dict[str, int]:
    """Return the ports of a pod, by names that Kubernetes takes."""
    found = {"remoting": int(server.settings["listenPort"]), "metrics": metrics_port(server)}
    brokers = server.members or ((server,) if server.kind is Kind.BROKER else ())
    for number, broker in enumerate(brokers):
        port = int(broker.settings["listenPort"])
        found |= {f"broker-{number}": port, f"fast-{number}": port - 2, f"slaves-{number}": port + 1}
    if server.kind is Kind.BROKER:
        del found["broker-0"]
    return found


def _manifests(form: Form, server: Server) -> Iterator[Yaml]:
    labels = {NAME_LABEL: server.name, "app.kubernetes.io/part-of": "hanabi", FORM_LABEL: form.value}
    about = {"name": server.name, "labels": labels}
    selector = {NAME_LABEL: server.name, FORM_LABEL: form.value}
    ports = _ports(server)
    yield {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": about,
        "data": {f"{each.name}.conf": file_text(each) for each in (server, *server.members)},
    }
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": about,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": selector,
            "ports": [{"name": name, "port": port, "targetPort": name} for name, port in ports.items()],
        },
    }
    yield {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": about,
        "spec": {
            "serviceName": server.name,
            "replicas": 1,
            "selector": {"matchLabels": selector},
            "template": {
                "metadata": {
                    "labels": labels,
                    "annotations": {
                        "prometheus.io/scrape": "true",
                        "prometheus.io/port": str(ports["metrics"]),
                        "prometheus.io/path": "/metrics",
                    },
                },
                "spec": _pod(form, server, ports),
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": _storage(server)}},
                    },
                }
            ],
        },
    }


def _storage(server: Server) -> str:
    return "100Gi" if server.kind in (Kind.BROKER, Kind.CONTAINER) else "1Gi"


def _pod(form: Form, server: Server, ports: dict[str, int]) -> Yaml:
    spread = {
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {FORM_LABEL: form.value}},
        },
    }
    return {
        "terminationGracePeriodSeconds": 120,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [spread]}},
        "containers": [
            {
                "name": server.kind.value,
                "image": IMAGE,
                "args": _words(server),
                "ports": [{"name": name, "containerPort": port} for name, port in ports.items()],
                "livenessProbe": _probe("/health", 10, 5, 6),
                "readinessProbe": _probe("/ready", 5, 3, 3),
                "securityContext": {
                    "allowPrivilegeEscalation": False,
                    "readOnlyRootFilesystem": True,
                    "capabilities": {"drop": ["ALL"]},
                },
                "volumeMounts": [
                    {"name": "data", "mountPath": "/data"},
                    {"name": "config", "mountPath": "/etc/hanabi", "readOnly": True},
                ],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": server.name}}],
    }


def _probe(path: str, period: int, timeout: int, failures: int) -> Yaml:
    return {
        "httpGet": {"path": path, "port": "metrics"},
        "initialDelaySeconds": 10,
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }
