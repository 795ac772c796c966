"""The configuration directory as a whole: what is read, in which order settings win, and how it is refused."""

from pathlib import Path

import pytest

from pipeline.configuration.versions import load_configuration
from pipeline.errors import ConfigurationError

PRICES = '[[gpu]]\nid = "a"\ngpu = "h100-sxm"\nusd_per_gpu_hour = "2.49"\nfrom = 2026-10-01T00:00:00Z\n'


def written(directory: Path, **files: str) -> Path:
    for name, text in files.items():
        path = directory / f"{name.replace('__', '/')}.toml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return directory


def test_without_a_directory_the_packaged_example_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    example = load_configuration(None)
    assert [replica.id for replica in example.inventory.replica] == ["llama70b-0", "llama70b-1", "llama8b-0", "llama8b-1"]
    assert [tenant.id for tenant in example.tenants.tenant] == ["acme", "globex", "initech"]
    assert all(row["flops_per_second"] > 0 for row in example.tables["inventory"])


def test_tokenpath_d_in_the_working_directory_comes_before_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tokenpath.d").mkdir()
    written(tmp_path / "tokenpath.d", tenants='[[tenant]]\nid = "solo"\n')
    assert load_configuration(None).tenants.ids() == {"solo"}


def test_files_that_are_not_there_mean_empty(tmp_path: Path) -> None:
    empty = load_configuration(tmp_path)
    assert not empty.inventory.replica and not empty.prices.gpu and not empty.slos.slo and not empty.files
    assert empty.rules  # the packaged profiles


def test_a_directory_that_was_named_must_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not a directory"):
        load_configuration(tmp_path / "nowhere")


def test_a_file_that_nobody_would_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"price\.toml: unknown file"):
        load_configuration(written(tmp_path, price=PRICES))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"prices": PRICES + "[[gpu]]\n"}, r"prices\.toml:6: gpu\.1\.from: is missing"),
        ({"prices": PRICES.replace("h100-sxm", "h100-pcx")}, r"prices\.toml:3: unknown gpu 'h100-pcx'"),
        ({"tokenpath": "[loader]\nbatch_spans = 1\nbatch_span = 1\n"}, r"tokenpath\.toml:3: loader\.batch_span: unknown key"),
        ({"tokenpath": "[loader\n"}, r"tokenpath\.toml:1: not valid TOML"),
        ({"tokenpath": "[attribution]\nslot_ms = 700\n"}, r"tokenpath\.toml:1: attribution: slot_ms must divide"),
        ({"slo": '[[slo]]\nmodel = "x"\nttft_ms = 1\nfrom = 2026-10-01T00:00:00Z\n'}, r"slo\.toml:2: unknown model 'x'"),
        ({"profiles__own": 'profile = "own"\nversion = 1\n[[span]]\nname = "a"\nrole = "x"\n'}, r"profiles/own\.toml:5"),
    ],
)
def test_whatever_is_refused_is_refused_with_file_and_line(tmp_path: Path, files: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load_configuration(written(tmp_path, **files))


def test_a_model_of_the_inventory_may_be_priced_and_given_an_objective(tmp_path: Path) -> None:
    since = "from = 2026-10-01T00:00:00Z\n"
    written(
        tmp_path,
        inventory=f'[[replica]]\nid = "r"\nmodel = "in-house"\ngpu = "asic-1"\ngpus = 1\n{since}[[model]]\nid = "gpt-stub"\n',
        prices=(
            f'[[gpu]]\nid = "a"\ngpu = "asic-1"\nusd_per_gpu_hour = "1"\n{since}'
            f'[[token]]\nsku = "s"\nmodel = ["in-house", "gpt-stub"]\nusd_per_million_tokens = {{ output_text = "1" }}\n{since}'
        ),
        slo=f'[[slo]]\nmodel = "gpt-stub"\ntpot_ms = 12.5\n{since}',
    )
    tables = load_configuration(tmp_path).tables
    assert [row["model"] for row in tables["token_prices"]] == ["gpt-stub", "in-house"]
    assert tables["slos"][0]["tpot_ns"] == 12_500_000


def test_an_option_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    written(tmp_path, tokenpath='[serve]\nhttp = "127.0.0.1:1"\nclickhouse_http = "127.0.0.1:2"\n[receive]\nmax_bodies_in_flight = 3\n')
    environment = {"TOKENPATH_SERVE_HTTP": "127.0.0.1:11", "TOKENPATH_SERVE_CLICKHOUSE_HTTP": "127.0.0.1:12", "PATH": "/bin"}
    settings = load_configuration(tmp_path, environment, {"serve": {"http": "127.0.0.1:111"}}).settings
    assert (settings.serve.http, settings.serve.clickhouse_http) == ("127.0.0.1:111", "127.0.0.1:12")
    assert settings.receive.max_bodies_in_flight == 3
    assert settings.receive.grpc == "127.0.0.1:4317"


def test_variables_are_read_as_the_type_of_their_setting(tmp_path: Path) -> None:
    environment = {
        "TOKENPATH_STORE_PASSWORD": "12345",
        "TOKENPATH_RECEIVE_KEEP_CONTENT": "true",
        "TOKENPATH_LOADER_BATCH_SECONDS": "0.5",
    }
    settings = load_configuration(tmp_path, environment).settings
    assert settings.store.password.get_secret_value() == "12345"
    assert settings.receive.keep_content is True
    assert settings.loader.batch_seconds == 0.5


@pytest.mark.parametrize(
    ("environment", "overrides", "words"),
    [
        ({"TOKENPATH_STORE_COLOUR": "red"}, {}, "^TOKENPATH_STORE_COLOUR: store.colour: unknown key"),
        ({"TOKENPATH_LOADER_BATCH_SPANS": "many"}, {}, "^TOKENPATH_LOADER_BATCH_SPANS: "),
        ({}, {"receive": {"max_body_bytes": 1}}, "^receive.max_body_bytes: "),
        ({"TOKENPATH_RECEIVE_GRPC": "0.0.0.0:4317"}, {}, "needs at least one"),
    ],
)
def test_a_setting_from_outside_the_file_is_refused_by_its_own_name(
    tmp_path: Path, environment: dict[str, str], overrides: dict[str, dict[str, object]], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load_configuration(tmp_path, environment, overrides)


def test_a_profile_of_the_user_is_added_or_replaces_the_packaged_one_of_its_name(tmp_path: Path) -> None:
    own = 'profile = "{}"\nversion = 9\n[match]\nscope_name = ["own"]\n[[span]]\nname = "call"\nrole = "inference"\nlayer = "engine"\n'
    written(tmp_path, profiles__own=own.format("own"), profiles__vllm=own.format("vllm").replace('"own"]', '"vllm"]'))
    rules = load_configuration(tmp_path).rules
    assert [rule.version for rule in rules if rule.profile == "own"] == [9]
    assert [(rule.name, rule.version) for rule in rules if rule.profile == "vllm"] == [("call", 9)]
    assert "profiles/own.toml" in load_configuration(tmp_path).files


def test_the_version_follows_what_is_said_and_not_how_it_is_written(tmp_path: Path) -> None:
    first = load_configuration(written(tmp_path, prices=PRICES)).hash
    assert load_configuration(written(tmp_path, prices="# dear\n" + PRICES.replace('"2.49"', '"2.490"'))).hash == first
    assert load_configuration(written(tmp_path, prices=PRICES.replace("2.49", "2.50"))).hash != first


def test_no_digit_of_a_price_is_rounded_away(tmp_path: Path) -> None:
    price = "12345678901234567890.123456789012"
    since = "from = 2026-10-01T00:00:00Z\n"
    token = f'[[token]]\nsku = "s"\nmodel = ["llama-3.1-8b"]\nusd_per_million_tokens = {{ output_text = "{price}" }}\n{since}'
    written(tmp_path, prices=f'[[gpu]]\nid = "a"\ngpu = "h100-sxm"\nusd_per_gpu_hour = "{price}"\n{since}{token}')
    tables = load_configuration(tmp_path).tables
    assert tables["token_prices"][0]["usd_per_million_tokens"] == price
    assert tables["gpu_prices"][0]["atoms_per_gpu_hour"] == price.replace(".", "")


def test_the_order_of_tables_does_not_make_another_version(tmp_path: Path) -> None:
    one, two = '[[tenant]]\nid = "a"\n', '[[tenant]]\nid = "b"\n'
    first = load_configuration(written(tmp_path, tenants=one + two)).hash
    assert load_configuration(written(tmp_path, tenants=two + one)).hash == first


def test_a_gpu_or_model_that_is_nearly_in_the_catalogue_is_taken_and_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    since = "from = 2026-10-01T00:00:00Z\n"
    replica = '[[replica]]\nid = "{}"\nmodel = "{}"\ngpu = "{}"\ngpus = 1\n' + since
    slips = replica.format("r0", "llama-3.3-7b", "h100-smx") + replica.format("r1", "in-house", "asic-1")
    written(tmp_path, inventory=slips)
    assert len(load_configuration(tmp_path).inventory.replica) == 2
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "inventory.toml: replica 'r0': gpu 'h100-smx' is in no catalogue" in told[0] and "did you mean 'h100-sxm'?" in told[0]
    assert "did you mean 'llama-3.3-70b'?" in told[1]
