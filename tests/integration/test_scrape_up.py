"""`tokenpath up` and `tokenpath scrape` read a real exporter: from its page to the measures that readers see."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import clickhouse_connect
from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from tests.processes import Running, environment, free_port, tokenpath, up

INVENTORY = """
[[replica]]
id = "r0"
match = { "service.name" = "vllm-a" }
model = "llama-3.3-70b"
gpu = "h100-sxm"
gpus = 4
from = 2026-01-01T00:00:00Z
"""


def configured(directory: Path, port: int) -> Path:
    directory.mkdir()
    targets = [("vllm-a", port), ("gone", free_port())]
    tables = [f'[[scrape]]\njob = "{job}"\nurl = "http://127.0.0.1:{at}/metrics"\ninterval_seconds = 1\n' for job, at in targets]
    (directory / "tokenpath.toml").write_text("".join(tables))
    (directory / "inventory.toml").write_text(INVENTORY)
    return directory


def measures(running: Running) -> dict[str, tuple[str, float]]:
    host, _, port = running.endpoint.clickhouse_http.rpartition(":")
    client = clickhouse_connect.get_client(
        host=host, port=int(port), username="endpoint.json", password=running.endpoint.token.get_secret_value(), database="tokenpath"
    )
    sql = "SELECT quantity, any(replica), sum(value) FROM measures INNER JOIN current_runs USING (window_from, run_id) GROUP BY quantity"
    found = {quantity: (replica, value) for quantity, replica, value in client.query(sql).result_rows}
    client.close()
    return found


def test_up_scrapes_and_measures_though_a_target_is_gone(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    prompt = Counter("vllm:prompt_tokens", "Prompt tokens.", ["model_name"], registry=registry).labels("m")
    Gauge("vllm:num_requests_running", "Running.", registry=registry).set(3)
    server, _ = start_http_server(0, addr="127.0.0.1", registry=registry)
    try:
        with up(tmp_path / "data", "--config", str(configured(tmp_path / "config", server.server_port)), "--no-viewer") as running:
            prompt.inc(1000)  # before the second scrape, so that it is an increase
            deadline, found = time.monotonic() + 90, {}
            while found.get("prompt_tokens", ("", 0))[1] < 1000 or "target_up" not in found:
                assert time.monotonic() < deadline, found
                time.sleep(1)
                running.command("attribute", "--from", now(-1800), "--to", now(60), "--provisional", "--wait")
                found = measures(running)
            assert found["prompt_tokens"] == ("r0", 1000)
            assert found["running_requests"] == ("r0", 3)
    finally:
        server.shutdown()


def now(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def test_scrape_is_a_process_of_its_own(tmp_path: Path) -> None:
    server, _ = start_http_server(0, addr="127.0.0.1", registry=CollectorRegistry())
    options = ["--config", str(configured(tmp_path / "config", server.server_port)), "--data", str(tmp_path / "data")]
    command = [sys.executable, "-c", "from pipeline.cli import main; main()", "scrape", *options]
    process = subprocess.Popen(command, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while waiting(options) < 2:
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        _, error = process.communicate(timeout=30)
    finally:
        process.kill()
        server.shutdown()
    assert process.returncode == 0
    assert "scraping 2 endpoints" in error
    assert error.count("gone at") == 1


def waiting(options: list[str]) -> int:
    status: Any = json.loads(tokenpath("status", *options, "--json").stdout)  # exit 1: nobody loads
    return sum(part["end_offset"] for part in status["log"] if part["topic"] == "otlp_metrics")


def test_nothing_to_scrape_is_a_mistake_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    done = tokenpath("scrape", "--config", tmp_path / "config", "--data", tmp_path / "data")
    assert (done.returncode, "add a [[scrape]]" in done.stderr) == (2, True), done
    (tmp_path / "config" / "tokenpath.toml").write_text('[[scrape]]\njob = "a"\nurl = "http://me:secret@h:1/metrics"\n')
    done = tokenpath("scrape", "--config", tmp_path / "config", "--data", tmp_path / "data")
    assert (done.returncode, "use bearer_token_file" in done.stderr, "secret" in done.stderr) == (2, True, False), done
