"""Writes the committed Grafana JSON from the definitions, and says whether it still agrees with them."""

import json
from pathlib import Path

from dashboards.panel import grafana_json
from dashboards.viewer import DASHBOARDS

JSON_FOLDER = Path(__file__).parent / "json"


def rendered() -> dict[str, str]:
    """File name to content, for every dashboard."""
    return {
        f"{name}.json": json.dumps(grafana_json(dashboard), indent=2, ensure_ascii=False) + "\n" for name, dashboard in DASHBOARDS.items()
    }


def build(folder: Path = JSON_FOLDER) -> list[Path]:
    """Writes all files and returns those that changed."""
    changed = []
    for name, content in rendered().items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != content:
            path.write_text(content, encoding="utf-8")
            changed.append(path)
    return changed


def outdated(folder: Path = JSON_FOLDER) -> list[str]:
    """Names of files that differ from the definitions. Reads only."""
    wanted = rendered()
    present = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
    return sorted(name for name in wanted.keys() | present.keys() if wanted.get(name) != present.get(name))
