"""Commands as a user types them: output, exit codes, one-line errors."""

import json
import re
from pathlib import Path

import pytest

from tests.processes import json_of, output_of, tokenpath


def test_help_names_every_command_and_comes_without_heavy_imports() -> None:
    text = output_of("--help")
    for verb in (
        "up",
        "receive",
        "demo",
        "replay",
        "migrate",
        "load",
        "attribute",
        "report",
        "status",
        "export",
        "dead-letters",
        "dashboards",
        "keys",
    ):
        assert re.search(rf"│ {verb} ", text), verb


def test_an_empty_store_answers_every_reading_command(tmp_path: Path) -> None:
    data = ("--data", tmp_path / "data")
    assert tokenpath("migrate", "--check", *data).returncode == 1
    assert "0001_spans" in output_of("migrate", *data)
    assert output_of("migrate", *data).strip() == "up to date"
    assert tokenpath("migrate", "--check", *data).returncode == 0
    report = json_of("report", *data)
    assert (report["schema"], report["tenants"]) == ("tokenpath.report/1", [])
    assert json_of("status", *data)["conservation"]["difference_atoms"] == "0"
    assert json_of("dead-letters", "list", *data) == {"dead_letters": []}
    assert json_of("load", "--once", *data) == {"messages": 0, "spans": 0, "dead_letters": 0}
    assert json_of("attribute", *data) == {"runs": []}
    assert "Nothing has been attributed yet" in output_of("report", *data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("report", "--from", "yesterday"), "--from 'yesterday' is no time"),
        (("report", "--config", "nowhere"), "nowhere is not a directory"),
        (("report", "--from", "2026-11-02", "--to", "2026-11-01"), "is not before --to"),
        (("export", "focus", "--month", "2026-13", "--out", "x.csv"), "2026-13"),
        (("replay", "missing.jsonl", "--to", "file:out"), "missing.jsonl"),
        (("replay", "missing.jsonl", "--to", "ftp://x"), "is no target"),
        (("keys", "new", "bad name"), "name"),
        (("dashboards", "publish", "--url", "http://127.0.0.1:1"), "GRAFANA_TOKEN is not set"),
    ],
)
def test_what_the_operator_must_mend_is_one_line_and_exit_2(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    done = tokenpath(*arguments, cwd=tmp_path, TOKENPATH_STORE_URL=f"chdb:{tmp_path / 'data' / 'store'}")
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_setting_is_refused_with_its_name(tmp_path: Path) -> None:
    done = tokenpath("report", cwd=tmp_path, TOKENPATH_STORE_ULR="chdb:x")
    assert done.returncode == 2
    assert "TOKENPATH_STORE_ULR" in done.stderr


def test_a_store_that_is_away_is_exit_3(tmp_path: Path) -> None:
    done = tokenpath("report", cwd=tmp_path, TOKENPATH_STORE_URL="http://u@127.0.0.1:1/tokenpath")
    assert done.returncode == 3, done.stderr
    assert "127.0.0.1:1" in done.stderr


def test_a_new_key_is_shown_once_with_the_table_to_paste(tmp_path: Path) -> None:
    text = output_of("keys", "new", "edge", "--principal", "tenant/acme", "--may", "ingest,read")
    config = tmp_path / "config"
    config.mkdir()
    (config / "tokenpath.toml").write_text(text.split("Add to tokenpath.toml:")[1])
    assert json_of("report", "--config", config, "--data", tmp_path / "data")["tenants"] == []


def test_replay_writes_files_and_says_what_it_did(tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        "".join(json.dumps({"timestamp": i * 500, "input_length": 600, "output_length": 20, "hash_ids": [1, i]}) + "\n" for i in range(20))
    )
    summary = json_of("replay", trace, "--to", f"file:{tmp_path / 'out'}", "--truth", tmp_path / "truth", "--fast")
    assert summary["requests"] == 20
    assert len((tmp_path / "truth" / "requests.jsonl").read_text().splitlines()) == 20
    assert list((tmp_path / "out").iterdir())


def test_dashboards_are_up_to_date() -> None:
    assert output_of("dashboards", "build", "--check").strip() == "up to date"
