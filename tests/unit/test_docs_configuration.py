"""docs/configuration.md: its files load, its tables name every key, its messages are those that a user meets."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from pydantic import BaseModel, SecretStr

from pipeline.configuration.versions import Configuration, load_configuration
from pipeline.errors import ConfigurationError
from schemas.metric import QUANTITIES, UNITS, Labels, Metric
from schemas.pool_pricing import GatewayPrice, KvStoragePrice, NetworkPrice, OverheadPrice, PowerPrice
from schemas.pricing import Billable, GpuPrice, OwnedGpuPrice, TokenPrice
from schemas.profile import Match, Profile, Readings, Span
from schemas.settings import KeySettings, ScrapeSettings, Settings, TopicSettings
from schemas.tenancy import OwnModel, Replica, Slo, Tenant

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml *(\S*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
FILES = dict(BLOCKS)
MESSAGES = [line for block in re.findall(r"^```text\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) for line in block.splitlines()]

FROM = "from = 2026-10-01T00:00:00Z\n"
GPU = f'[[gpu]]\nid = "a"\ngpu = "h100-sxm"\nusd_per_gpu_hour = "2.49"\n{FROM}'
REPLICA = f'[[replica]]\nid = "r0"\nmodel = "llama-3.3-70b"\ngpu = "h100-sxm"\ngpus = 4\n{FROM}'
ACME = '[[tenant]]\nid = "acme"\n'
PROFILE = (
    'profile = "own"\nversion = 1\n[match]\nscope_name = ["my.stack"]\n[[span]]\nname = "call"\nrole = "inference"\nlayer = "engine"\n'
)


def load(directory: Path, files: Mapping[str, str], environment: Mapping[str, str] | None = None) -> Configuration:
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return load_configuration(directory, environment)


def sections() -> dict[str, list[list[str]]]:
    """Heading or bold file name -> rows of the tables below it, each a list of cells; code marks kept."""
    found: dict[str, list[list[str]]] = {}
    name = ""
    for line in PAGE.splitlines():
        if line.startswith("#") or re.match(r"^`\[\[?[a-z_]+\]\]?`", line):
            name = line.strip("# ").split("` ")[0].strip("`")
            found.setdefault(name, [])
        elif line.startswith("|"):
            found[name].append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def keys(rows: list[list[str]]) -> set[str]:
    """Code words in the first cells."""
    return {word for row in rows for word in re.findall(r"`([^`]+)`", row[0])}


def test_each_file_has_one_example() -> None:
    assert [name for name, _ in BLOCKS] == list(FILES)
    assert [name.partition("/")[0] for name in FILES] == [
        "tokenpath.toml", "inventory.toml", "prices.toml", "tenants.toml", "slo.toml", "profiles",
    ]  # fmt: skip


def test_the_examples_form_a_directory_that_loads(tmp_path: Path) -> None:
    found = load(tmp_path, FILES)
    assert [key.name for key in found.settings.keys] == ["edge-gateway", "acme-dashboards"]
    assert [topic.name for topic in found.settings.topic] == ["otlp_from_collector"]
    assert [target.instance for target in found.settings.scrape] == ["vllm-a:8000", "gpu-host-1:9400"]
    assert found.tenants.ids() == {"acme", "globex"}
    assert {rule.name for rule in found.rules if rule.profile == "my-stack"} == {"http.request", "llm ", ""}
    rows = {row["replica"]: row for row in found.tables["inventory"]}
    assert all(row["flops_per_second"] > 0 for row in rows.values()), "one of the names is in no catalogue"
    assert {row["gpu"] for row in rows.values()} <= {row["gpu"] for row in found.tables["gpu_prices"]}
    assert len(found.slos.slo) == 3
    assert set(found.files) == set(FILES) - {"tokenpath.toml"}


@pytest.mark.parametrize("name", [name for name, field in Settings.model_fields.items() if name not in ("key", "topic", "scrape")])
def test_every_setting_is_listed_with_its_variable_and_default(name: str) -> None:
    section = Settings.model_fields[name].annotation
    assert isinstance(section, type) and issubclass(section, BaseModel)
    listed = {row[0].strip("`"): row[1:3] for row in sections()[f"[{name}]"] if row[0].startswith("`")}
    expected = {}
    for key, field in section.model_fields.items():
        default = field.default.get_secret_value() if isinstance(field.default, SecretStr) else field.default
        text = str(default).lower() if isinstance(default, bool) else str(default)
        expected[key] = [f"`TOKENPATH_{name.upper()}_{key.upper()}`", f"`{text}`" if text else ""]
    assert listed == expected


def other(default: str) -> str:
    """A value that the setting may have and that is not its default."""
    chosen = {"": "0" * 64, "PLAINTEXT": "SSL", "false": "true", "1.0": "0.5", "0.1": "0.2", "-": "PLAIN"}
    return chosen.get(default) or (str(int(default) // 2) if default.isdecimal() else default.replace("127.0.0.1:", "127.0.0.1:1"))


def test_each_variable_that_is_listed_sets_its_own_key_and_no_other(tmp_path: Path) -> None:
    listed = re.findall(r"^\| `(\w+)` \| `(TOKENPATH_([A-Z]+)_\w+)` \| (?:`(.*?)`)? *\|", PAGE, re.MULTILINE)
    assert len(listed) > 25
    usual = Settings()
    for key, variable, section, default in listed:
        value = other("-" if key == "sasl_mechanism" else default)
        value = "elsewhere" if key == "url" else value
        settings = load(tmp_path, {}, {variable: value}).settings
        changed = getattr(usual, section.lower()).model_copy(update={key: getattr(getattr(settings, section.lower()), key)})
        assert settings == usual.model_copy(update={section.lower(): changed})
        assert settings != usual, variable


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("[[key]]", KeySettings),
        ("[[topic]]", TopicSettings),
        ("[[scrape]]", ScrapeSettings),
        ("[[replica]]", Replica),
        ("[[model]]", OwnModel),
        ("[[gpu]]", GpuPrice),
        ("[[owned_gpu]]", OwnedGpuPrice),
        ("[[power]]", PowerPrice),
        ("[[network]]", NetworkPrice),
        ("[[kv_storage]]", KvStoragePrice),
        ("[[gateway]]", GatewayPrice),
        ("[[overhead]]", OverheadPrice),
        ("[[token]]", TokenPrice),
        ("[billable]", Billable),
        ("tenants.toml", Tenant),
        ("slo.toml", Slo),
    ],
)
def test_every_key_of_a_table_is_listed(heading: str, kind: type[BaseModel]) -> None:
    assert keys(sections()[heading]) == {field.alias or name for name, field in kind.model_fields.items()}


def test_every_key_of_a_profile_is_listed() -> None:
    text = PAGE[PAGE.index("## `profiles/*.toml`") : PAGE.index("## Messages")]
    words = set(re.findall(r"`([^`\n]+)`", text))
    span = {field.alias or name for name, field in Span.model_fields.items() if name not in Readings.model_fields}
    metrics = set(Metric.model_fields) | set(Labels.model_fields) | set(UNITS) | set(QUANTITIES)
    wanted = (
        (set(Profile.model_fields) - {"span", "labels", "metric"}) | set(Match.model_fields) | span | set(Readings.model_fields) | metrics
    )
    assert wanted - words - {"match"} == set()
    assert {"[match]", "[[span.stage]]", "[labels]", "[[metric]]"} <= words
    listed = re.findall(r"^\| `(\w+)` \| (\w+) \| (gauge|counter, rate) \|", text, re.MULTILINE)
    assert listed == [(name, one.unit, "gauge" if one.level else "counter, rate") for name, one in QUANTITIES.items()]
    fields = text[text.index("Fields: ") :].split("\n\n")[0]
    assert re.findall(r"`(\w+)`", fields) == list(Readings.model_fields)


CASES: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"prices.toml": GPU.replace("usd_per_gpu_hour", "usd_per_hour")}, {}),
    ({"prices.toml": GPU.replace("h100-sxm", "h100-smx")}, {}),
    ({"slo.toml": f'[[slo]]\nmodel = "llama-70b"\nttft_ms = 1000\n{FROM}'}, {}),
    ({"tenants.toml": ACME, "slo.toml": f'[[slo]]\ntenant = "acne"\nttft_ms = 1000\n{FROM}'}, {}),
    ({"prices.toml": GPU.replace('"2.49"', "2.49")}, {}),
    ({"prices.toml": GPU.replace("00Z", "00+02:00")}, {}),
    ({"tenants.toml": f'{ACME}time_zone = "CEST"\n'}, {}),
    ({"inventory.toml": f'{REPLICA}reserved_for = {{ tenant = "acme", gpus = 8 }}\n'}, {}),
    ({"prices.toml": GPU + GPU.replace('"a"', '"b"')}, {}),
    ({"inventory.toml": REPLICA, "prices.toml": f'{GPU}includes = ["power"]\n[[power]]\nid = "p"\nusd_per_kwh = "0.2"\n{FROM}'}, {}),
    ({"tenants.toml": f'{ACME}aliases = ["red"]\n' + '[[tenant]]\nid = "globex"\naliases = ["red"]\n'}, {}),
    ({"tokenpath.toml": "[attribution]\nslot_ms = 700\n"}, {}),
    ({"tokenpath.toml": '[receive]\ngrpc = "0.0.0.0:4317"\n'}, {}),
    ({}, {"TOKENPATH_STORE_COLOUR": "red"}),
    ({"price.toml": GPU}, {}),
    ({"tokenpath.toml": "[loader\n"}, {}),
    ({"profiles/own.toml": PROFILE, "profiles/two.toml": PROFILE.replace('"own"', '"two"')}, {}),
]


def message(files: Mapping[str, str], environment: Mapping[str, str]) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load(Path("tokenpath.d"), files, environment)
    return str(caught.value)


def test_every_message_on_the_page_is_one_that_a_user_meets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    met = []
    for number, (files, environment) in enumerate(CASES):
        (tmp_path / str(number) / "tokenpath.d").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / str(number))
        met.append(message(files, environment))
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(Path("nowhere"))
    assert sorted([*met, str(caught.value)]) == sorted(MESSAGES)


def test_a_misspelt_gpu_in_the_inventory_is_accepted_as_the_page_says(tmp_path: Path) -> None:
    found = load(tmp_path, {"inventory.toml": REPLICA.replace("h100-sxm", "h100-smx"), "prices.toml": GPU})
    assert [row["flops_per_second"] for row in found.tables["inventory"]] == [0]
