"""Grafana's macros, for the viewer and the tests: the panel's SQL becomes a statement with server-side parameters.

Values never enter the text: a variable's values travel as `{name:Array(String)}`, so a hostile value is only a value.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class TimeRange:
    """Half open `[from_s, to_s)`, unix seconds; `interval_s` is the width of a bucket."""

    from_s: int
    to_s: int
    interval_s: int


def expand(sql: str, time: TimeRange, variables: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, Any]]:
    """Statement and parameters. A variable without values means All. Raises ValueError on a macro that is not known here."""
    text = _conditional_all(sql, variables)
    text = re.sub(r"\(\$\{(\w+):singlequote\}\)", r"{\1:Array(String)}", text)
    text = text.replace("$__fromTime", "toDateTime({from_s:UInt32}, 'UTC')").replace("$__toTime", "toDateTime({to_s:UInt32}, 'UTC')")
    text = re.sub(r"\$__timeInterval\(([^()]*)\)", r"toStartOfInterval(toDateTime(\1, 'UTC'), toIntervalSecond({interval_s:UInt32}))", text)
    if "$" in text:
        raise ValueError(f"unknown macro or variable in the query: {text[text.index('$') :][:40]}")
    parameters: dict[str, Any] = {"from_s": time.from_s, "to_s": time.to_s, "interval_s": time.interval_s}
    parameters |= {name: list(values) for name, values in variables.items() if values}
    return text, {name: value for name, value in parameters.items() if f"{{{name}:" in text}


def _conditional_all(sql: str, variables: Mapping[str, Sequence[str]]) -> str:
    marker = "$__conditionalAll("
    while (start := sql.find(marker)) >= 0:
        end = _closing(sql, start + len(marker))
        condition, _, variable = sql[start + len(marker) : end].rpartition(",")
        chosen = variables.get(variable.strip().removeprefix("$"), ())
        sql = sql[:start] + (condition.strip() if chosen else "1=1") + sql[end + 1 :]
    return sql


def _closing(sql: str, position: int) -> int:
    depth = 1
    for index in range(position, len(sql)):
        depth += {"(": 1, ")": -1}.get(sql[index], 0)
        if depth == 0:
            return index
    raise ValueError("a macro's bracket is not closed")
