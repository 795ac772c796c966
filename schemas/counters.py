"""Counts of what a process did, for its `/metrics`. In memory, safe to use from several threads."""

import threading
from collections.abc import Mapping

Labels = tuple[tuple[str, str], ...]


class Counters:
    """A fixed set of counters, each with its help text; a name outside the set is a KeyError. Values only rise."""

    def __init__(self, help_texts: Mapping[str, str]) -> None:
        self._help = dict(help_texts)
        self._lock = threading.Lock()
        self._values: dict[str, dict[Labels, int]] = {name: {} for name in help_texts}

    def add(self, name: str, amount: int = 1, /, **labels: str) -> None:
        key = tuple(sorted(labels.items()))
        with self._lock:
            series = self._values[name]
            series[key] = series.get(key, 0) + amount

    def value(self, name: str, /, **labels: str) -> int:
        """Sum over the series that have these labels (and any others)."""
        wanted = set(labels.items())
        with self._lock:
            return sum(count for key, count in self._values[name].items() if wanted <= set(key))

    def text(self) -> str:
        """Prometheus text format, series in a fixed order."""
        with self._lock:
            copy = {name: dict(series) for name, series in self._values.items()}
        lines = []
        for name, series in copy.items():
            lines += [f"# HELP {name} {self._help[name]}", f"# TYPE {name} counter"]
            lines += [f"{name}{_braces(labels)} {count}" for labels, count in sorted(series.items())]
        return "\n".join(lines) + "\n" if lines else ""


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escape(text)}"' for name, text in labels) + "}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
