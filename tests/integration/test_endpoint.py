"""The HTTP front of the embedded store: real clients read through it; every way around the row filters is refused."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import clickhouse_connect
import httpx
import pytest
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from pipeline.serving.embedded import EmbeddedEngine
from pipeline.serving.endpoint import Reader, endpoint_app
from pipeline.store.client import Store, open_store
from pipeline.store.migrate import migrate
from schemas.settings import Permission, StoreSettings
from tests.http_server import serving

KEYS = {"acme-key": "tenant/acme", "ops-key": "platform", "root-key": "platform"}


@dataclass(frozen=True)
class Known:
    principal: str


def authenticate(key: str | None, needs: Permission) -> Reader | None:
    if key not in KEYS or (needs == "admin" and key != "root-key"):
        return None
    return Known(KEYS[key])


@pytest.fixture(scope="module")
def port(engine: Store) -> Iterator[int]:
    with serving(endpoint_app(EmbeddedEngine(engine.path), authenticate)) as port:
        yield port


@pytest.fixture
def front(store: Store, port: int) -> int:
    store.insert_rows(
        "tenant_windows",
        [
            {"window_from": "2026-11-01 00:00:00", "run_id": 1, "tenant": tenant, "model": "m", "requests": 1, "useful_tokens": 5}
            for tenant in ("acme", "globex")
        ],
    )
    store.insert_rows("pools", [{"window_from": "2026-11-01 00:00:00", "run_id": 1, "pool": "gpu", "resource": "r", "atoms": "7"}])
    return port


def client(port: int, key: str) -> Client:
    return clickhouse_connect.get_client(
        host="127.0.0.1", port=port, username="default", password=key, database="tokenpath", compress=False, autogenerate_session_id=False
    )


def ask(port: int, key: str, sql: str, **parameters: str) -> httpx.Response:
    return httpx.post(f"http://127.0.0.1:{port}/", params=parameters, content=sql.encode(), headers={"Authorization": f"Bearer {key}"})


def test_ping_needs_no_key(front: int) -> None:
    assert httpx.get(f"http://127.0.0.1:{front}/ping").text == "Ok.\n"


@pytest.mark.parametrize("key", ["", "wrong"])
def test_without_a_known_key_nothing_is_answered(front: int, key: str) -> None:
    answer = ask(front, key, "SELECT 1") if key else httpx.get(f"http://127.0.0.1:{front}/", params={"query": "SELECT 1"})
    assert answer.status_code == 403
    assert answer.headers["X-ClickHouse-Exception-Code"] == "516"


def test_the_real_client_connects_and_reads_with_server_side_parameters(front: int) -> None:
    reader = client(front, "ops-key")
    rows = reader.query(
        "SELECT tenant, useful_tokens FROM tenant_windows WHERE tenant != {none:String} ORDER BY tenant", parameters={"none": "it's\n\\n"}
    )
    assert list(rows.result_rows) == [("acme", 5), ("globex", 5)]


def test_a_tenant_sees_its_own_rows_and_nobodys_pools(front: int) -> None:
    reader = client(front, "acme-key")
    assert reader.query("SELECT tenant FROM tenant_windows").result_rows == [("acme",)]
    assert reader.query("SELECT tenant FROM tokenpath.tenant_windows AS x").result_rows == [("acme",)]
    assert reader.query("WITH w AS (SELECT * FROM tenant_windows) SELECT count() FROM w").result_rows == [(1,)]
    assert reader.query("SELECT count() FROM pools").result_rows == [(0,)]
    assert reader.query("SELECT count() FROM system.tables").result_rows == [(0,)]
    assert reader.query("SELECT 'globex' IN (SELECT tenant FROM tenant_windows)").result_rows == [(0,)]


def test_a_materialized_view_does_not_show_a_tenant_what_its_target_hides(front: int, store: Store) -> None:
    store.insert_rows("spans", [{"principal": principal, "name": principal} for principal in ("tenant/acme", "tenant/globex", "platform")])
    assert ask(front, "acme-key", "SELECT name FROM spans").text == "tenant/acme\n"
    for (view,) in store.query("SELECT name FROM system.tables WHERE database = 'tokenpath' AND engine = 'MaterializedView'").rows:
        assert ask(front, "acme-key", f"SELECT count() FROM {view}").text == "0\n", view
    assert ask(front, "ops-key", "SELECT count() FROM spans_view").text == "3\n"


def test_a_tenant_learns_which_runs_are_current_and_no_sum_over_all_tenants(front: int, store: Store) -> None:
    run = {"run_id": 1, "window_from": "2026-11-01 00:00:00", "state": "published", "pools_atoms": "900", "ledger_atoms": "900"}
    store.insert_rows("runs", [run])
    assert ask(front, "acme-key", "SELECT run_id, difference_atoms FROM current_runs").text == "1\t0\n"
    for sql in ("SELECT pools_atoms FROM runs", "SELECT 1 FROM tokenpath.runs AS r", "SELECT 900 IN (SELECT pools_atoms FROM runs)"):
        assert ask(front, "acme-key", sql).status_code == 403
    assert ask(front, "acme-key", "SELECT 900 IN runs").status_code == 403
    assert ask(front, "ops-key", "SELECT pools_atoms FROM runs").text == "900\n"


@pytest.mark.parametrize("head", ["insert into billable format csv", "INSERT INTO billable SETTINGS max_threads = 1 FORMAT CSV;"])
def test_an_insert_with_a_body_may_be_written_in_clickhouses_ways(front: int, store: Store, head: str) -> None:
    for query, body in ((head, "h,useful,all\n"), ("", f"{head.rstrip(';')}\nh,late,all\n")):
        headers = {"Authorization": "Bearer root-key"}
        answer = httpx.post(f"http://127.0.0.1:{front}/", params={"query": query} if query else {}, content=body.encode(), headers=headers)
        assert answer.status_code == 200, answer.text
    assert store.query("SELECT groupArraySorted(9)(toString(outcome)) FROM billable").scalar() == ["late", "useful"]


def test_a_table_made_while_the_front_runs_is_closed_to_tenants(front: int, store: Store) -> None:
    assert ask(front, "acme-key", "SELECT 1").text == "1\n"
    store.command("CREATE TABLE made_later ENGINE = MergeTree ORDER BY tenant AS SELECT tenant FROM tenant_windows")
    try:
        assert ask(front, "acme-key", "SELECT count() FROM made_later").text == "0\n"
    finally:
        store.command("DROP TABLE made_later")


@pytest.mark.parametrize("alias", ["AS `tokenpath.runs`", "`tokenpath.runs`", "AS {a:Identifier}"])
def test_a_table_alias_cannot_take_the_row_filter_of_another_table(front: int, store: Store, alias: str) -> None:
    for (table,) in store.query("SELECT name FROM system.tables WHERE database = 'tokenpath' AND engine LIKE '%MergeTree'").rows:
        answer = ask(front, "acme-key", f"SELECT count() FROM {table} {alias}", param_a="tokenpath.runs")
        seen, own = answer.text.strip(), ask(front, "acme-key", f"SELECT count() FROM {table}").text.strip()
        assert answer.status_code == 403 or seen == own, (table, seen, own)


BYPASSES = [
    "SELECT * FROM merge('tokenpath', '^tenant_windows$')",
    "SELECT * FROM mergeTreeIndex('tokenpath', 'tenant_windows')",
    "SELECT * FROM file('/etc/hostname', 'LineAsString')",
    "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')",
    "SELECT * FROM remote('127.0.0.1', 'tokenpath', 'tenant_windows')",
    "SELECT * FROM viewExplain('EXPLAIN', '', (SELECT 1))",
    "SELECT * FROM view(SELECT * FROM tenant_windows)",
    "SELECT * FROM executable('id', 'TSV', 'a String')",
    "SELECT 1 WHERE 1 IN merge('tokenpath', '^tenant_windows$')",
    "SELECT 'x' IN system.users",
    "SELECT 1 WHERE ('a', 'b') IN INFORMATION_SCHEMA.tables",
    "SELECT * FROM system.query_log",
    "SELECT * FROM system.processes",
    "SELECT * FROM `system`.`users`",
    "SELECT (SELECT max(name) FROM system.users)",
    "SELECT * FROM INFORMATION_SCHEMA.TABLES",
    "SELECT 1; DROP TABLE tenant_windows",
    "SELECT 1 INTO OUTFILE '/tmp/tokenpath-outfile-test'",
    "SELECT * FROM tenant_windows INTO OUTFILE '/tmp/tokenpath-outfile-test' FORMAT CSV",
    "SELECT * FROM tenant_windows SETTINGS additional_table_filters = {}",
    "SELECT * FROM (SELECT * FROM tenant_windows SETTINGS readonly = 0)",
    "SET readonly = 0",
    "SET additional_table_filters = {}",
    "DROP TABLE tenant_windows",
    "TRUNCATE TABLE tenant_windows",
    "INSERT INTO tenant_windows (tenant) VALUES ('x')",
    "CREATE TABLE stolen ENGINE = Memory AS SELECT * FROM tenant_windows",
    "EXPLAIN SELECT 1",
    "EXPLAIN AST SELECT 1; DROP TABLE tenant_windows",
    "SHOW TABLES",
    "SELECT file('/etc/hostname')",
    "SELECT joinGet('tenant_windows', 'tenant', 1)",
    "SELECT dictGet('d', 'x', 1)",
    "SELECT sleep(3)",
    "SELECT reverseDNSQuery('127.0.0.1')",
    "SELECT getSetting('additional_table_filters')",
    "SELECT fullHostName()",
    "WITH x AS (SELECT * FROM numbers(1)) SELECT * FROM x, url('http://127.0.0.1:1/')",
    "/* SELECT */ SYSTEM SHUTDOWN",
    "KILL QUERY WHERE 1",
    "BACKUP TABLE tenant_windows TO Disk('default', 'x')",
    "GRANT ALL ON *.* TO x",
    "ATTACH TABLE t FROM '/etc'",
    "",
]


@pytest.mark.parametrize("key", ["acme-key", "ops-key"])
@pytest.mark.parametrize("sql", BYPASSES)
def test_every_known_bypass_is_refused(front: int, store: Store, sql: str, key: str) -> None:
    answer = ask(front, key, sql)
    assert answer.status_code in (400, 403), answer.text
    assert "X-ClickHouse-Exception-Code" in answer.headers
    assert store.query("SELECT count() FROM tenant_windows").scalar() == 2
    assert not Path("/tmp/tokenpath-outfile-test").exists()


def test_a_table_named_by_a_parameter_is_judged_by_its_value(front: int) -> None:
    allowed = ask(front, "acme-key", "SELECT count() FROM {t:Identifier}", param_t="tenant_windows")
    assert allowed.text.strip() == "1"
    refused = ask(front, "acme-key", "SELECT count() FROM {t:Identifier}", param_t="system.users")
    assert refused.status_code in (400, 403)


def test_settings_of_a_reader_are_dropped_not_obeyed(front: int) -> None:
    answer = ask(
        front, "acme-key", "SELECT count() FROM tenant_windows", additional_table_filters="{}", max_execution_time="600", readonly="0"
    )
    assert answer.text.strip() == "1"


def test_an_admin_writes_over_http_as_the_loader_does(front: int) -> None:
    settings = StoreSettings(url=f"http://default@127.0.0.1:{front}/tokenpath", password="root-key")  # type: ignore[arg-type]
    over_http = open_store(settings)
    assert migrate(over_http) == []
    over_http.insert_rows("tenants", [{"config_hash": "h", "tenant": "it's", "name": "a\nb", "aliases": ["x"]}])
    assert over_http.query("SELECT tenant, name, aliases FROM tenants").rows == (("it's", "a\nb", ["x"]),)
    with pytest.raises(DatabaseError):
        over_http.query("SELECT nonsense FROM tenants")
    over_http.close()


def test_compressed_inserts_arrive(front: int) -> None:
    for compress in ("lz4", "zstd", "gzip"):
        writer = clickhouse_connect.get_client(
            host="127.0.0.1", port=front, username="x", password="root-key", database="tokenpath", compress=compress
        )
        writer.insert("billable", [["h", compress, "all"]], column_names=["config_hash", "outcome", "bucket"])
    assert writer.query("SELECT groupArraySorted(9)(outcome) FROM billable").result_rows == [(["gzip", "lz4", "zstd"],)]
