"""Which package may import which: collectors -> schemas <- pipeline, dashboards -> schemas, and only the CLI knows all."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = frozenset({"schemas", "collectors", "pipeline", "dashboards", "tests"})
ALLOWED = {
    "schemas": {"schemas"},
    "collectors": {"collectors", "schemas"},
    "pipeline": {"pipeline", "schemas"},
    "dashboards": {"dashboards", "schemas"},
}
COMPOSER = "pipeline/cli.py"  # may import everything, but only inside its functions, so that start-up stays quick


def imports(tree: ast.Module) -> Iterator[tuple[str, int, bool]]:
    """(top-level package, line, at import time?) of every import. A relative import stays in its package."""
    inside = {id(child) for node in ast.walk(tree) if isinstance(node, FUNCTIONS) for child in ast.walk(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            names = [node.module] if node.level == 0 and node.module else []
        for name in names:
            yield name.partition(".")[0], node.lineno, id(node) not in inside


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def wrong_arrows(path: str, text: str) -> list[str]:
    package = path.partition("/")[0]
    return [
        f"{path}:{line} imports {name}"
        for name, line, at_import_time in imports(ast.parse(text))
        if name in OURS - ALLOWED[package] and (path != COMPOSER or at_import_time or name == "tests")
    ]


@pytest.mark.parametrize("package", sorted(ALLOWED))
def test_every_module_imports_only_what_its_package_may_know(package: str) -> None:
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules
    assert [arrow for module in modules for arrow in wrong_arrows(module.relative_to(ROOT).as_posix(), module.read_text())] == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("schemas/x.py", "from pipeline.store.client import Store"),
        ("collectors/x.py", "def f():\n    import pipeline.store.client"),
        ("pipeline/x.py", "def f():\n    from collectors import scrape"),
        ("dashboards/x.py", "import pipeline"),
        ("pipeline/cli.py", "import dashboards.viewer"),
        ("pipeline/cli.py", "if True:\n    from collectors.scrape import x"),
        ("pipeline/cli.py", "def f():\n    import tests.conftest"),
        ("schemas/x.py", "import tests"),
    ],
)
def test_an_arrow_that_points_the_wrong_way_is_found(path: str, text: str) -> None:
    assert len(wrong_arrows(path, text)) == 1


def test_the_command_line_may_compose_inside_its_functions() -> None:
    assert wrong_arrows("pipeline/cli.py", "def up():\n    from collectors.otlp_grpc import serve\n    import dashboards.viewer") == []


def test_the_contract_does_no_io() -> None:
    """schemas reads its own package data and nothing else."""
    found = [
        f"{module.name}:{line} imports {name}"
        for module in sorted((ROOT / "schemas").rglob("*.py"))
        for name, line, _ in imports(ast.parse(module.read_text()))
        if name in {"os", "pathlib", "io", "socket", "sqlite3", "subprocess", "requests", "httpx", "clickhouse_connect", "kafka"}
    ]
    assert found == []
