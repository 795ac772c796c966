"""A name or literal cannot write lines of its own into the tree that the guard of the HTTP front reads."""

import pytest

from pipeline.serving.embedded import EmbeddedEngine, QueryRefused
from pipeline.store.client import Store


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ('a' IN system.contributors) AS `x\nIdentifier z`", {}),
        ("SELECT `x\nIdentifier z` IN system.contributors FROM (SELECT 'a' AS `x\nIdentifier z`)", {}),
        ("SELECT ('a' IN system.contributors) AS `x\u2028Identifier z`", {}),
        ("SELECT 'x\u2028Identifier z' IN system.contributors", {}),
        ("SELECT 'x\x0bIdentifier z' IN system.contributors", {}),
        ("SELECT {c:Identifier} IN system.contributors FROM system.one", {"c": "dummy\\nIdentifier z"}),
    ],
)
def test_a_line_break_in_a_name_or_literal_hides_no_table_from_the_guard(store: Store, sql: str, parameters: dict[str, str]) -> None:
    with pytest.raises(QueryRefused):
        EmbeddedEngine(store.path).read("tenant/acme", sql, parameters, "TSV")


def test_names_with_spaces_literals_with_line_breaks_and_qualified_columns_are_fine(store: Store) -> None:
    store.insert_rows("tenant_windows", [{"window_from": "2026-11-01 00:00:00", "tenant": "acme", "model": "m"}])
    sql = "SELECT t.model AS `the model`, 'a\nb' AS text FROM tenant_windows AS t WHERE t.tenant IN ('acme', 'bolt')"
    assert EmbeddedEngine(store.path).read("tenant/acme", sql, {}, "TSV")[0] == b"m\ta\\nb\n"
