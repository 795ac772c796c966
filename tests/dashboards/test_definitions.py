"""The definitions themselves: layout, words, committed JSON, provisioning, SQL rules."""

import json
import re
from itertools import combinations
from pathlib import Path

import pytest
import yaml

from dashboards.build import JSON_FOLDER, build, outdated
from dashboards.panel import DATA_SOURCE, GRID_COLUMNS, Dashboard, Panel, query_text
from dashboards.viewer import DASHBOARDS

FOLDER = Path(JSON_FOLDER).parent
EACH = pytest.mark.parametrize("dashboard", DASHBOARDS.values(), ids=DASHBOARDS.keys())


def test_committed_json_is_what_the_definitions_say() -> None:
    assert outdated() == [], "run 'make dashboards' and commit"


def test_build_writes_only_what_changed_and_outdated_sees_it(tmp_path: Path) -> None:
    assert len(build(tmp_path)) == len(DASHBOARDS)
    assert build(tmp_path) == []
    (tmp_path / "cost.json").write_text("{}")
    (tmp_path / "left-over.json").write_text("{}")
    assert outdated(tmp_path) == ["cost.json", "left-over.json"]


@EACH
def test_panels_fit_the_grid_and_do_not_overlap(dashboard: Dashboard) -> None:
    def overlap(a: Panel, b: Panel) -> bool:
        return a.x < b.x + b.w and b.x < a.x + a.w and a.y < b.y + b.h and b.y < a.y + a.h

    assert all(p.x >= 0 and p.x + p.w <= GRID_COLUMNS for p in dashboard.panels)
    assert not [(a.title, b.title) for a, b in combinations(dashboard.panels, 2) if overlap(a, b)]
    assert len({p.id for p in dashboard.panels}) == len(dashboard.panels) <= 12
    assert all(p.question.endswith((".", "?")) for p in dashboard.panels)


@EACH
def test_grafana_json_is_classic_42_without_an_id(dashboard: Dashboard) -> None:
    name = next(key for key, value in DASHBOARDS.items() if value is dashboard)
    content = json.loads((JSON_FOLDER / f"{name}.json").read_text())
    assert content["schemaVersion"] == 42
    assert "id" not in content
    assert content["uid"] == dashboard.uid
    for panel in content["panels"]:
        assert panel["datasource"] == DATA_SOURCE
        assert panel["targets"][0]["format"] == (0 if panel["type"] == "timeseries" else 1)
    assert all(v["current"] == {"text": "All", "value": "$__all"} for v in content["templating"]["list"])


def test_every_query_file_is_used_and_every_value_is_quoted() -> None:
    used = {p.query for d in DASHBOARDS.values() for p in d.panels} | {v.query for d in DASHBOARDS.values() for v in d.variables}
    assert used == {path.stem for path in (FOLDER / "queries").glob("*.sql")}
    for name in used:
        assert all(found.endswith(":singlequote") for found in re.findall(r"\$\{([^}]*)\}", query_text(name))), name
        assert not re.search(r"\bavg\s*\(", query_text(name)), f"{name}: percentiles and ratios are never averaged"


def test_provisioning_names_the_data_source_and_folder_of_the_dashboards() -> None:
    source = yaml.safe_load((FOLDER / "provisioning/datasources/clickhouse.yml").read_text())["datasources"][0]
    assert {"type": source["type"], "uid": source["uid"]} == DATA_SOURCE
    assert source["secureJsonData"]["password"].startswith("$")
    provider = yaml.safe_load((FOLDER / "provisioning/dashboards/tokenpath.yml").read_text())["providers"][0]
    assert provider["options"]["path"] == "/var/lib/grafana/dashboards"
