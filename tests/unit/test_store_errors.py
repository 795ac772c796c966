import pytest
from clickhouse_connect.driver.exceptions import DatabaseError, OperationalError

from pipeline.errors import ConfigurationError, StoreDown
from pipeline.store.client import Store, open_store
from pipeline.store.errors import error_code, is_query_memory, store_errors
from schemas.settings import StoreSettings


@pytest.mark.parametrize(
    "error",
    [
        DatabaseError("Code: 243. DB::Exception: Cannot reserve 1.00 MiB, not enough space. (NOT_ENOUGH_SPACE)"),
        DatabaseError("Code: 241. DB::Exception: (total) memory limit exceeded. (MEMORY_LIMIT_EXCEEDED)"),
        DatabaseError("Code: 252. DB::Exception: Too many parts. (TOO_MANY_PARTS)"),
        DatabaseError("Code: 75. DB::Exception: Cannot write to file x, errno: 28, strerror: No space left on device"),
        DatabaseError("Code: 1001. DB::Exception: std::filesystem::filesystem_error: filesystem error: in create_directory"),
        OperationalError("Error HTTPConnectionPool(host='h', port=1): Max retries exceeded"),
        OSError(28, "No space left on device"),
    ],
)
def test_what_the_store_cannot_do_now_is_an_outage(error: Exception) -> None:
    with pytest.raises(StoreDown), store_errors("store here"):
        raise error


@pytest.mark.parametrize(
    "error",
    [
        DatabaseError("Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)"),
        DatabaseError("Code: 444. DB::Exception: Code: 444. DB::Exception: Protobuf messages are corrupted"),
        RuntimeError("a bug"),
    ],
)
def test_a_wrong_statement_is_no_outage(error: Exception) -> None:
    with pytest.raises(type(error)), store_errors("store here"):
        raise error


def test_a_statement_beyond_its_own_memory_limit_is_told_from_a_full_machine(engine: Store) -> None:
    with pytest.raises(StoreDown) as caught:
        engine.query("SELECT groupArray(number) FROM numbers(10000000)", settings={"max_memory_usage": 1_000_000})
    assert caught.value.__cause__ is not None
    assert is_query_memory(caught.value.__cause__)
    assert not is_query_memory(DatabaseError("Code: 241. DB::Exception: (total) memory limit exceeded"))


def test_the_number_of_the_innermost_error_counts() -> None:
    assert error_code(DatabaseError("Code: 1001. DB::Exception: Code: 444. DB::Exception: corrupted")) == 444
    assert error_code(OperationalError("no number")) is None


def test_a_server_that_is_not_there_is_an_outage() -> None:
    with pytest.raises(StoreDown, match=r"http://127\.0\.0\.1:1"):
        open_store(StoreSettings(url="http://127.0.0.1:1"))


def test_an_unknown_kind_of_store_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match=r"\[store\] url = 'duckdb:x'"):
        open_store(StoreSettings(url="duckdb:x"))
