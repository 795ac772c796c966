"""Files of rows: JSON lines, arrays, CSV; read on from any row; bad rows are told with their line and cost nothing else."""

import csv
import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collectors.records import rows as module
from collectors.records.rows import FileRow, rows

ROWS: list[dict[str, Any]] = [{"a": 1}, {"a": 'text with "quotes", [brackets] and \\ {', "b": {"c": [1, {"d": "}"}]}}, {}, {"é": "ü\n"}]


def as_lines(values: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


def as_array(values: list[dict[str, Any]], indent: int | None = 1) -> bytes:
    return json.dumps(values, ensure_ascii=False, indent=indent).encode()


def as_csv(values: list[dict[str, str]]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(values[0]))
    writer.writeheader()
    writer.writerows(values)
    return out.getvalue().encode()


def read(content: bytes, offset: int = 0, line: int = 1) -> list[FileRow]:
    return list(rows(io.BytesIO(content), offset, line))


def values(found: list[FileRow]) -> list[Any]:
    return [row.value for row in found]


@pytest.mark.parametrize(
    "content", [as_lines(ROWS), as_array(ROWS), as_array(ROWS, None), b"\xef\xbb\xbf" + as_lines(ROWS), b"\n " + as_array(ROWS)]
)
def test_lines_and_arrays(content: bytes) -> None:
    assert values(read(content)) == ROWS
    assert read(content)[-1].end <= len(content)


def test_csv_fields_may_hold_line_breaks_and_json() -> None:
    wanted = [{"id": "1", "metadata": '{"a": "x\ny"}', "empty": ""}, {"id": "2", "metadata": "{}", "empty": ""}]
    found = read(as_csv(wanted))
    assert values(found) == wanted
    assert [(row.line, row.end_line) for row in found] == [(2, 4), (4, 5)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5), st.recursive(st.none() | st.text(max_size=8) | st.integers(), st.lists, max_leaves=5), max_size=4
        ),
        max_size=6,
    ),
    st.sampled_from(["lines", "array", "compact array"]),
    st.integers(1, 40),
)
def test_reading_on_from_any_row_gives_the_rest(wanted: list[dict[str, Any]], shape: str, chunk: int) -> None:
    content = as_lines(wanted) if shape == "lines" else as_array(wanted, 2 if shape == "array" else None)
    before = module.CHUNK_BYTES
    module.CHUNK_BYTES = chunk if shape != "lines" else before
    try:
        whole = read(content)
        assert values(whole) == wanted
        for number, row in enumerate(whole):
            assert read(content, row.end, row.end_line) == whole[number + 1 :]
    finally:
        module.CHUNK_BYTES = before


def test_csv_is_read_on_from_any_row() -> None:
    content = as_csv([{"a": str(number), "b": "x\ny"} for number in range(5)])
    whole = read(content)
    for number, row in enumerate(whole):
        assert read(content, row.end, row.end_line) == whole[number + 1 :]


def test_a_bad_line_is_told_and_the_others_are_read() -> None:
    found = read(b'{"a": 1}\n\nnonsense\n[1]\n{"a": 2}\n')
    assert [(row.line, row.value is not None) for row in found] == [(1, True), (3, False), (4, False), (5, True)]
    assert found[1].raw == b"nonsense"
    assert "not JSON" in found[1].error
    assert found[2].error == "not a JSON object"


@pytest.mark.parametrize(("content", "line"), [(b'{"a": 1}\n{"a": 2, "b"', 2), (b"a,b\n1,2\n3", 3)])
def test_a_row_that_is_still_being_written_is_read_again(content: bytes, line: int) -> None:
    found = read(content)
    assert found[-1].value is None
    assert "ends in the middle" in found[-1].error
    assert (found[-1].end, found[-1].end_line) == (found[-2].end, line)


def test_a_last_line_without_a_line_break_counts_when_it_is_whole() -> None:
    assert values(read(b'{"a": 1}\n{"a": 2}')) == [{"a": 1}, {"a": 2}]
    assert values(read(b"a,b\n1,2")) == [{"a": "1", "b": "2"}]


@pytest.mark.parametrize("content", [b'[{"a": 1}, {"b": ', b'[{"a": 1}, {"b": "x', b'[{"a": 1}'])
def test_an_array_without_an_end_is_one_bad_row(content: bytes) -> None:
    first, *others = read(content)
    assert first.value == {"a": 1}
    assert [row.value for row in others] == [None]
    assert "no end" in others[0].error


def test_what_is_no_object_in_an_array_is_told() -> None:
    assert values(read(b'[1, {"a": 1}, "x", null]')) == [None, {"a": 1}, None, None]


def test_a_csv_row_with_other_fields_than_the_header_is_told() -> None:
    found = read(b"a,b\n1\n2,3\n")
    assert found[0].error == "1 fields, but the header has 2"
    assert found[1].value == {"a": "2", "b": "3"}


def test_a_row_has_a_largest_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ROW_BYTES_MAX", 100)
    found = read(as_lines([{"a": "x" * 300}, {"a": 1}]))
    assert [row.error for row in found] == ["the line has more than 100 bytes", ""]
    assert found[1].value == {"a": 1}
    assert read(as_array([{"a": "x" * 300}], None), 0)[0].value is not None  # it was in memory already
    monkeypatch.setattr(module, "CHUNK_BYTES", 64)
    assert "too large" in read(as_array([{"a": "x" * 300}], None))[0].error


def test_an_empty_file_has_no_rows() -> None:
    assert read(b"") == []
    assert read(b"[]") == []
    assert read(b"a,b\n") == []
