"""Protected doors and Java: brokers that register with name servers, and clients that certificates identify."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import hanabi
from hanabi.remoting.transport.tls import TlsConfig
from tests.interop.apache import QUICK_START, ApacheBroker, java, java_environment
from tests.interop.jars import ALL_5, JAVA, SERVERS_4, classpath
from tests.interop.ours import OurBroker, OurNameServer
from tests.interop.probe import knows_broker
from tests.interop.sites import CLUSTER
from tests.remoting.certificates import issue

ELSEWHERE = "192.0.2.7"  # an address that no test has
RULES = """
accounts:
- accessKey: java-client
  secretKey: secret-of-java
  topicPerms: [Allowed=PUB]
- accessKey: operator1
  secretKey: secret-of-operator
  admin: true
"""


@pytest.fixture
def stack(apache_jars: None) -> Iterator[ExitStack]:
    """Ends what a test started."""
    with ExitStack() as stack:
        yield stack


def name_server(home: Path, stack: ExitStack, settings: dict[str, object]) -> OurNameServer:
    home.mkdir()
    config = home / "namesrv.conf"
    config.write_text("writeProtectionEnable=true\n" + "".join(f"{key}={value}\n" for key, value in settings.items()))
    server = OurNameServer(home / "data", "-c", str(config))
    stack.callback(server.process.kill)
    server.wait_ready()
    return server


def until_refused(server: OurNameServer, reason: str) -> None:
    line = f"REGISTER_BROKER refused: {reason}"
    server.process.wait_until(lambda: line in server.process.output(), "refuse the broker")


@pytest.mark.parametrize("jar_set", [SERVERS_4, ALL_5])
def test_a_java_broker_registers_where_its_address_is_listed_or_it_signs_and_nowhere_else(
    jar_set: str, tmp_path: Path, stack: ExitStack
) -> None:
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "plain_acl.yml").write_text(RULES)
    listed = name_server(tmp_path / "listed", stack, {"writeAllowedPeers": "127.0.0.1"})
    closed = name_server(tmp_path / "closed", stack, {"writeAllowedPeers": ELSEWHERE})
    signed = name_server(tmp_path / "signed", stack, {"aclFolder": rules})
    inner = '{"accessKey":"operator1","secretKey":"secret-of-operator"}'
    signs = jar_set == ALL_5  # 4.9 cannot
    provider = "org.apache.rocketmq.auth.authentication.provider"
    of_5: dict[str, object] = {
        "authenticationEnabled": "true",
        "authenticationProvider": f"{provider}.DefaultAuthenticationProvider",
        "authenticationMetadataProvider": f"{provider}.LocalAuthenticationMetadataProvider",
        "initAuthenticationUser": '{"username":"operator1","password":"secret-of-operator"}',
        "innerClientAuthenticationCredentials": inner,
    }
    broker = ApacheBroker(
        tmp_path / "broker",
        jar_set,
        name="registers",
        cluster=CLUSTER,
        namesrv=f"{listed.address};{closed.address};{signed.address}",
        settings=of_5 if signs else {},
    )
    stack.callback(broker.process.kill)
    broker.process.wait_until(lambda: knows_broker(listed.address, "registers"), "register by its address")
    until_refused(closed, "REGISTER_BROKER is not allowed from 127.0.0.1")
    assert not knows_broker(closed.address, "registers")
    if signs:
        broker.process.wait_until(lambda: knows_broker(signed.address, "registers"), "register by its signature")
    else:
        until_refused(signed, "No accessKey is configured")
        assert not knows_broker(signed.address, "registers")


@pytest.mark.parametrize("jar_set", [SERVERS_4, pytest.param(ALL_5, marks=pytest.mark.slow)])
def test_a_java_client_is_known_by_its_certificate(jar_set: str, tmp_path: Path, stack: ExitStack) -> None:
    authority = issue(tmp_path, "authority")
    server, client = issue(tmp_path, "server", authority), issue(tmp_path, "java-client", authority)
    of_server = tmp_path / "server.properties"
    of_server.write_text(
        "tls.server.mode=permissive\ntls.server.need.client.auth=optional\n"
        f"tls.server.certPath={server.certificate_path}\ntls.server.keyPath={server.key_path}\n"
        f"tls.server.trustCertPath={authority.certificate_path}\n"
    )
    of_client = tmp_path / "client.properties"
    of_client.write_text(  # in its test mode, which is on by default, it shows no certificate
        f"tls.test.mode.enable=false\ntls.client.certPath={client.certificate_path}\ntls.client.keyPath={client.key_path}\n"
        f"tls.client.authServer=true\ntls.client.trustCertPath={authority.certificate_path}\n"
    )
    namesrv = OurNameServer(tmp_path / "namesrv", "--tls-config", str(of_server))
    stack.callback(namesrv.process.kill)
    namesrv.wait_ready()
    home = tmp_path / "broker"
    home.mkdir()
    (home / "plain_acl.yml").write_text(RULES)
    broker = OurBroker(
        home,
        "--tls-config",
        str(of_server),
        name="certified",
        namesrv=namesrv.address,
        settings={"aclEnable": "true", "certificateAccountsEnable": "true"},
    )
    stack.callback(broker.process.kill)
    broker.wait_ready()
    ours = TlsConfig(
        client_enable=True,
        client_auth_server=True,
        client_trust_cert_path=str(authority.certificate_path),
        client_cert_path=str(client.certificate_path),
        client_key_path=str(client.key_path),
    )
    with hanabi.Producer("makes_topics", namesrv=namesrv.address, tls=ours) as producer:
        producer.send(hanabi.Message("Allowed", b"x"))
    jvm = (*QUICK_START, "-Dtls.enable=true", f"-Dtls.config.file={of_client}")
    source = str(JAVA / "acl" / "CertificateClient.java")
    command = java(tmp_path / "java", classpath(jar_set), source, namesrv.address, broker.name, jvm=jvm)
    done = subprocess.run(
        command, env=java_environment(), capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path
    )
    told = dict(re.findall(r"^case (.+?): (.*)$", done.stdout, flags=re.MULTILINE))
    assert told == {
        "certificate": "OK",
        "forbidden": "16 No default permission for topic:Forbidden",
        "same": "OK",
        "other": "16 the client certificate is of account java-client, the request of operator1",
    }, done.stdout + done.stderr
