"""A real Kafka broker for tests: one KRaft node in a JVM of its own, its data in a temporary directory.

The jars come through Maven (tests/pom.xml) into tests/target, once. `KAFKA_BOOTSTRAP_SERVERS` names a running broker
instead. Tests that ask for fixture `kafka_broker` are skipped, with the reason, where neither is possible.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.errors import KafkaError

HERE = Path(__file__).resolve().parent
JARS = HERE / "target" / "broker"
READY_SECONDS = 60.0
CLUSTER_ID = "dG9rZW5wYXRoLXRlc3RzIQ"  # any 16 bytes in base64
SECURED_USER, SECURED_PASSWORD = "tokenpath", "only-for-tests"

PROPERTIES = """\
process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:{broker_port},SASL_SSL://127.0.0.1:{secured_port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker_port},SASL_SSL://127.0.0.1:{secured_port}
sasl.enabled.mechanisms=PLAIN
listener.name.sasl_ssl.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_{user}="{password}";
ssl.keystore.type=PKCS12
ssl.keystore.location={directory}/broker.p12
ssl.keystore.password={password}
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:{controller_port}
log.dirs={directory}/data
num.partitions=1
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
log.cleaner.dedupe.buffer.size=8388608
log.segment.bytes=67108864
"""


class CannotRun(Exception):
    """Why there is no broker on this machine."""


class KafkaBroker:
    """One broker, at `bootstrap_servers`, and with TLS and SASL PLAIN at `secured_servers`.

    `stop`, `kill` and `pause` take it away, `start` and `resume` bring it back with its data.
    """

    def __init__(self, java: str, directory: Path) -> None:
        self._java, self._directory = java, directory
        broker_port, secured_port, controller_port = free_ports(3)
        self.bootstrap_servers = f"127.0.0.1:{broker_port}"
        self.secured_servers = f"127.0.0.1:{secured_port}"
        self.certificate_file = directory / "broker.pem"
        self._properties = directory / "server.properties"
        text = PROPERTIES.format(
            broker_port=broker_port,
            secured_port=secured_port,
            controller_port=controller_port,
            directory=directory,
            user=SECURED_USER,
            password=SECURED_PASSWORD,
        )
        self._properties.write_text(text, encoding="ascii")
        self._process: subprocess.Popen[bytes] | None = None
        self._make_certificate()
        self._run_to_end("kafka.tools.StorageTool", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(self._properties))

    def _make_certificate(self) -> None:
        keytool = [str(Path(self._java).resolve().with_name("keytool")), "-alias", "broker", "-storepass", SECURED_PASSWORD]
        store = ["-keystore", str(self._directory / "broker.p12")]
        name = ["-dname", "CN=127.0.0.1", "-ext", "SAN=IP:127.0.0.1", "-keyalg", "EC", "-storetype", "PKCS12", "-validity", "3650"]
        for action in (["-genkeypair", *name], ["-exportcert", "-rfc", "-file", str(self.certificate_file)]):
            subprocess.run([*keytool, *store, *action], capture_output=True, check=True, timeout=READY_SECONDS)

    def _command(self, main_class: str, *arguments: str) -> list[str]:
        options = ["-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        return [self._java, *options, "-cp", f"{JARS}/*", main_class, *arguments]

    def _run_to_end(self, main_class: str, *arguments: str) -> None:
        done = subprocess.run(self._command(main_class, *arguments), capture_output=True, text=True, timeout=READY_SECONDS, check=False)
        if done.returncode:
            raise RuntimeError(f"{main_class} failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")

    def start(self) -> None:
        """Returns once the broker answers. Raises RuntimeError with the end of its output when it does not."""
        with (self._directory / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._properties)), cwd=self._directory, stdout=output, stderr=output
            )
        deadline = time.monotonic() + READY_SECONDS
        while not answers(self.bootstrap_servers):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError("Kafka did not start: " + (self._directory / "output.txt").read_text(errors="replace")[-3000:])

    def stop(self) -> None:
        """Ends it in an orderly way."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.kill()
            self._process = None

    def kill(self) -> None:
        """Ends it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ensure_running(self) -> None:
        """Undoes whatever took it away."""
        if self._process is None:
            self.start()
        else:
            self.resume()

    def pause(self) -> None:
        """It keeps its connections and answers nothing, as behind a broken network."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)


class RunningBroker:
    """A broker of somebody else's: it cannot be taken away."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers


def answers(bootstrap_servers: str) -> bool:
    """True once the broker serves metadata to the real client."""
    try:
        with KafkaAdminClient(bootstrap_servers=bootstrap_servers, bootstrap_timeout_ms=1_000, request_timeout_ms=1_000) as client:
            return bool(client.describe_cluster()["brokers"])
    except KafkaError:
        return False


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(one.getsockname()[1]) for one in held]
    for one in held:
        one.close()
    return ports


def find_java() -> str:
    java = shutil.which("java")
    if java is None:
        raise CannotRun("Kafka tests need java (17 or later) on the PATH, or KAFKA_BOOTSTRAP_SERVERS")
    return java


def ensure_jars() -> None:
    """Lets Maven copy the broker's jars, unless they are newer than tests/pom.xml. Raises CannotRun."""
    pom, done = HERE / "pom.xml", JARS / "complete"
    if done.exists() and done.stat().st_mtime >= pom.stat().st_mtime:
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise CannotRun("Kafka tests need mvn on the PATH to fetch the broker, or KAFKA_BOOTSTRAP_SERVERS")
    shutil.rmtree(JARS, ignore_errors=True)
    command = [maven, "--batch-mode", "--quiet", "--file", str(pom), "dependency:copy-dependencies"]
    fetched = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    if fetched.returncode:
        raise CannotRun(f"mvn could not fetch the Kafka broker: {fetched.stdout[-600:]}{fetched.stderr[-300:]}")
    done.touch()


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker | RunningBroker]:
    """A broker that answers, one for the whole test process."""
    if running := os.environ.get("KAFKA_BOOTSTRAP_SERVERS"):
        yield RunningBroker(running)
        return
    try:
        java = find_java()
        ensure_jars()
    except CannotRun as error:
        pytest.skip(str(error))
    broker = KafkaBroker(java, tmp_path_factory.mktemp("kafka"))
    broker.start()
    yield broker
    broker.stop()
