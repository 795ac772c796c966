"""A configuration in the store: exact, complete, idempotent, and every row's names are the table's."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.configuration.versions import EXAMPLE, Configuration, load_configuration, store_configuration
from pipeline.store.client import Store
from pipeline.store.migrate import migrations
from tests.conftest import empty

NOW = datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC)
TABLES = (
    "inventory",
    "gpu_prices",
    "pool_prices",
    "token_prices",
    "tenants",
    "slos",
    "model_constants",
    "profile_rules",
    "metric_rules",
    "billable",
)


def counts(store: Store) -> dict[str, int]:
    return {table: store.query(f"SELECT count() FROM {table}").scalar() for table in (*TABLES, "config_versions")}


def newest(store: Store) -> str:
    found: str = store.query("SELECT argMax(config_hash, recorded_at) FROM config_versions").scalar()
    return found


def priced(tmp_path: Path, price: str) -> Configuration:
    row = f'id = "a"\ngpu = "h100-sxm"\nusd_per_gpu_hour = "{price}"\n'
    (tmp_path / "prices.toml").write_text(f"[[gpu]]\n{row}from = 2026-10-01T00:00:00Z\nto = 2026-11-01T00:00:00.000001Z\n")
    return load_configuration(tmp_path)


def complete(tmp_path: Path) -> Configuration:
    """The packaged example with a row for every table."""
    for file in EXAMPLE.glob("*.toml"):
        (tmp_path / file.name).write_text(file.read_text())
    with (tmp_path / "prices.toml").open("a") as prices:
        prices.write('[[gateway]]\nid = "edge"\nusd_per_node_hour = "0.17"\nfrom = 2026-10-01T00:00:00Z\n')
    return load_configuration(tmp_path)


def test_storing_the_same_configuration_again_adds_nothing(store: Store, tmp_path: Path) -> None:
    configuration = complete(tmp_path)
    first = store_configuration(store, configuration, NOW)
    before = counts(store)
    assert all(before.values())
    assert store_configuration(store, complete(tmp_path), NOW + timedelta(hours=1)) == first
    assert counts(store) == before


def test_a_version_that_comes_back_is_the_newest_again_without_new_rows(store: Store, tmp_path: Path) -> None:
    old, new = priced(tmp_path, "1.00"), priced(tmp_path, "2.00")
    first = store_configuration(store, old, NOW)
    second = store_configuration(store, new, NOW + timedelta(seconds=1))
    assert first != second and newest(store) == second
    before = counts(store)
    assert store_configuration(store, old, NOW + timedelta(seconds=2)) == first
    assert newest(store) == first
    assert counts(store) == {**before, "config_versions": 3}


def test_rows_that_a_broken_attempt_left_are_not_doubled(store: Store) -> None:
    configuration = load_configuration(None)
    wanted = store_configuration(store, configuration, NOW)
    before = counts(store)
    store.command("TRUNCATE TABLE config_versions")
    store.command("TRUNCATE TABLE slos")
    assert store_configuration(store, configuration, NOW) == wanted
    assert counts(store) == before


def test_every_row_names_exactly_the_columns_of_its_table(store: Store, tmp_path: Path) -> None:
    configuration = complete(tmp_path)
    store_configuration(store, configuration, NOW)
    assert tuple(configuration.tables) == TABLES
    for table, rows in configuration.tables.items():
        columns = store.query(
            "SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String}", {"table": table}
        )
        wanted = {name for (name,) in columns.rows} - {"config_hash"}
        assert rows and all(set(row) == wanted for row in rows), table


def test_the_engine_takes_the_enums_of_every_packaged_rule_and_reads_them_back(store: Store) -> None:
    configuration = load_configuration(None)
    store_configuration(store, configuration, NOW)
    stored = store.query(
        "SELECT rank, profile, name, role, layer, arrayMap(f -> (f.field, f.keys, f.ns_per_unit, f.includes_cache), fields) AS fields,"
        " arrayMap(s -> (s.stage, s.keys, s.ns_per_unit, s.quality), stages) AS stages FROM profile_rules ORDER BY rank"
    ).rows
    assert [(rank, profile, name, role, layer) for rank, profile, name, role, layer, _, _ in stored] == [
        (rule.rank, rule.profile, rule.name, rule.role, rule.layer) for rule in configuration.rules
    ]
    vllm = next(row for row in stored if row[2] == "llm_request")
    assert ("ttft_ns", ["gen_ai.latency.time_to_first_token"], 1e9, 0) in [tuple(field) for field in vllm[5]]
    assert ("input_tokens", ["gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"], 1.0, 1) in [tuple(field) for field in vllm[5]]
    assert [stage[0] for stage in vllm[6]] == ["schedule", "prefill", "decode"]


def test_a_replica_is_stored_with_what_it_really_reaches(store: Store) -> None:
    store_configuration(store, load_configuration(None), NOW)
    found = store.query("SELECT flops_per_second, bytes_per_second, match, gpus, to_ns FROM inventory WHERE replica = 'llama70b-0'").rows[0]
    assert found == (
        4 * 1_978_900_000_000_000 * 45 // 100,
        4 * 3_350_000_000_000 * 7 // 10,
        {"tokenpath.replica.id": "llama70b-0"},
        4,
        2**63 - 1,
    )


def test_a_replica_of_unknown_hardware_has_no_rates(store: Store, tmp_path: Path) -> None:
    (tmp_path / "inventory.toml").write_text(
        '[[replica]]\nid = "x"\nmodel = "in-house"\ngpu = "asic-1"\ngpus = 2\nfrom = 2026-10-01T00:00:00Z\n'
        '[[replica]]\nid = "y"\nmodel = "tuned"\ngpu = "h100-sxm"\ngpus = 1\nfrom = 2026-10-01T00:00:00Z\n'
        '[[model]]\nid = "tuned"\nlike = "llama-3.1-8b"\n'
    )
    store_configuration(store, load_configuration(tmp_path), NOW)
    rows = store.query("SELECT replica, flops_per_second > 0, bytes_per_second > 0, match FROM inventory ORDER BY replica").rows
    assert rows == (("x", 0, 0, {"tokenpath.replica.id": "x"}), ("y", 1, 1, {"tokenpath.replica.id": "y"}))
    assert store.query("SELECT flop_per_token FROM model_constants WHERE model = 'tuned' LIMIT 1").scalar() == 2 * 8_030_261_248


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(atoms=st.integers(0, 10**32 - 1))
def test_a_price_comes_back_to_the_atom(store: Store, tmp_path: Path, atoms: int) -> None:
    empty(store)
    store_configuration(store, priced(tmp_path, f"{atoms // 10**12}.{atoms % 10**12:012d}"), NOW)
    assert store.query("SELECT atoms_per_gpu_hour, from_ns, to_ns FROM gpu_prices").rows == (
        (atoms, 1_790_812_800_000_000_000, 1_793_491_200_000_001_000),
    )


def test_the_newest_version_says_when_and_from_what(store: Store, tmp_path: Path) -> None:
    configuration = priced(tmp_path, "1.5")
    wanted = store_configuration(store, configuration, NOW)
    assert store.query("SELECT config_hash, recorded_at, currency, files FROM config_versions").rows == (
        (wanted, NOW, "USD", {"prices.toml": (tmp_path / "prices.toml").read_text()}),
    )


def test_secrets_of_the_settings_are_not_stored(store: Store, tmp_path: Path) -> None:
    (tmp_path / "tokenpath.toml").write_text('[log]\nurl = "kafka://h:1"\nsasl_password = "hunter2"\n')
    store_configuration(store, load_configuration(tmp_path), NOW)
    assert "hunter2" not in str(store.query("SELECT files FROM config_versions").rows)


def test_the_config_tables_have_one_ddl_file_each() -> None:
    made = {match[1] for one in migrations() if one.name.startswith(("003", "0100")) and (match := re.search(r"EXISTS (\w+)", one.sql))}
    assert made == {*TABLES, "config_versions"}


def test_what_divides_time_is_part_of_the_version_and_where_data_lies_is_not() -> None:
    plain = load_configuration(None)
    assert load_configuration(None, overrides={"attribution": {"slot_ms": 500}}).hash != plain.hash
    assert load_configuration(None, overrides={"store": {"url": "chdb:/elsewhere"}}).hash == plain.hash
    assert replace(plain, files={}).hash == plain.hash
