"""The compose file is checked where no Docker runs: images pinned, health checks, secrets from the environment, mounts that exist."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
OURS = ("migrate", "receiver", "loader", "attribution")


def test_the_services_are_those_of_the_data_flow() -> None:
    assert set(COMPOSE["services"]) == {"kafka", "clickhouse", "grafana", *OURS}


@pytest.mark.parametrize("name", ["kafka", "clickhouse", "grafana"])
def test_images_are_pinned_and_have_a_health_check(name: str) -> None:
    service = COMPOSE["services"][name]
    assert re.fullmatch(r"[\w./-]+:\d+(\.\d+)+", service["image"])
    assert service["healthcheck"]["test"]


def test_every_secret_comes_from_the_environment_file() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for name, value in re.findall(r"(\w*PASSWORD\w*|\w*SHA256\w*): (.+)", text):
        assert value.startswith("${"), f"{name} is written into the compose file"
    variables = set(re.findall(r"\$\{(\w+)", text))
    assert variables <= set(re.findall(r"^#? ?(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))


def test_mounted_files_exist() -> None:
    for service in COMPOSE["services"].values():
        for volume in service.get("volumes", []):
            source = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", volume).split(":")[0]
            if source.startswith("."):
                assert (ROOT / source).exists(), source


@pytest.mark.parametrize("name", OURS)
def test_our_processes_call_commands_that_exist(name: str) -> None:
    from typer.main import get_command

    from pipeline.cli import app

    verb, *options = COMPOSE["services"][name]["command"]
    command = get_command(app).commands[verb]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {option for option in options if option.startswith("--")} <= known


def test_environment_names_are_settings() -> None:
    from schemas.settings import Settings

    for service in COMPOSE["services"].values():
        for name in service.get("environment", {}):
            if name.startswith("TOKENPATH_"):
                section, _, key = name.removeprefix("TOKENPATH_").lower().partition("_")
                assert key in Settings.model_fields[section].annotation.model_fields  # type: ignore[union-attr]


def test_the_broker_takes_what_the_receivers_take() -> None:
    from schemas.settings import ReceiveSettings

    assert int(COMPOSE["services"]["kafka"]["environment"]["KAFKA_MESSAGE_MAX_BYTES"]) > ReceiveSettings().max_body_bytes
