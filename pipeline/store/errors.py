"""What ClickHouse's errors mean for us: the store cannot work now, or the statement is wrong."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from clickhouse_connect.driver.exceptions import ClickHouseError, Error, InterfaceError, OperationalError

from pipeline.errors import StoreDown

# Numbers of ClickHouse (ErrorCodes.cpp) that say: nothing is wrong with the statement, try it later or mend the machine.
CANNOT_WORK = {
    74: "cannot read a file",
    75: "cannot write a file",
    76: "cannot open a file",
    159: "time-out",
    164: "read-only",
    172: "cannot create a directory",
    173: "cannot allocate memory",
    202: "too many queries at once",
    209: "network time-out",
    210: "network error",
    225: "no Keeper",
    236: "aborted",
    241: "memory limit",
    242: "table is read-only",
    243: "disk full",
    252: "too many parts: merges are behind",
    279: "no replica answers",
    285: "too few live replicas",
    286: "quorum of an earlier insert is missing",
    319: "unknown status of an insert",
    394: "cancelled",
    425: "system call failed",
    481: "path cannot be reached",
    499: "object storage error",
    999: "Keeper error",
}
CANNOT_READ_ALL, STD_EXCEPTION = 33, 1001
DISK_WORDS = re.compile(r"filesystem error|No space left|Read-only file system|Input/output error|Disk quota", re.IGNORECASE)
# The limit of one query, not of the whole engine: this statement is too large, others still work.
QUERY_MEMORY = re.compile(r"\(for query\)|Query memory limit exceeded|\bquery memory\b", re.IGNORECASE)
CODE = re.compile(r"\bCode: (\d+)\.")


def error_code(error: BaseException) -> int | None:
    """ClickHouse's number; the innermost where one error quotes another."""
    quoted = CODE.findall(str(error))
    if quoted:
        return int(quoted[-1])
    return error.code if isinstance(error, Error) else None


def is_query_memory(error: BaseException) -> bool:
    return error_code(error) == 241 and bool(QUERY_MEMORY.search(str(error)))


def meaning(error: BaseException) -> str | None:
    """Why the store cannot work now, or None when the statement itself is refused."""
    code = error_code(error)
    if code in CANNOT_WORK:
        return CANNOT_WORK[code]
    if code in (STD_EXCEPTION, None) and DISK_WORDS.search(str(error)):
        return "disk error"
    if code is None and isinstance(error, OperationalError | InterfaceError):
        return "connection lost"
    if code is None and isinstance(error, OSError):
        return "system error"
    return None


@contextmanager
def store_errors(where: str) -> Iterator[None]:
    """Raises StoreDown for what the store cannot do now; errors of a statement pass unchanged."""
    try:
        yield
    except (ClickHouseError, OSError, RuntimeError) as error:
        reason = meaning(error)
        if reason is None:
            raise
        raise StoreDown(f"{where}: {reason}: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0][:500]
