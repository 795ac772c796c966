"""Runs one measurement in a process of its own: one embedded engine a process, and a peak of memory that is nobody else's."""

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


class MeasurementFailed(Exception):
    """What the process said last."""


def in_own_process(module: str, arguments: Mapping[str, Any], timeout_s: float) -> dict[str, float]:
    """The figures of `module.measure(**arguments)`, and `others_cores`: how many cores were busy with something else meanwhile.

    Its working directory, which holds all it writes, is deleted however it ends. Raises MeasurementFailed, also after timeout_s.
    """
    with tempfile.TemporaryDirectory(prefix="tokenpath-bench-", ignore_cleanup_errors=True) as directory:
        out, said = Path(directory) / "figures.json", Path(directory) / "errors.txt"
        began, busy, own = time.monotonic(), busy_seconds(), own_seconds()
        command = [sys.executable, "-m", "tests.bench.alone", module, json.dumps(arguments), str(out)]
        with said.open("wb") as errors:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, "TMPDIR": directory, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise MeasurementFailed(f"{module} did not end within {timeout_s:.0f} s") from None
        finally:
            _end_session(process)
        if process.returncode:
            raise MeasurementFailed(said.read_text(errors="replace").strip() or f"{module} ended with {process.returncode}")
        others = (busy_seconds() - busy) - (own_seconds() - own)
        figures: dict[str, float] = json.loads(out.read_text())
        return {**figures, "others_cores": max(0.0, others) / (time.monotonic() - began)}


def busy_seconds() -> float:
    """CPU time of the whole machine that was not idle, stolen time included."""
    user, nice, system, _, _, *others = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + system + sum(others)) / os.sysconf("SC_CLK_TCK")


def own_seconds() -> float:
    """CPU time of this process and of all that it has waited for."""
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)))


def _end_session(process: subprocess.Popen[bytes]) -> None:
    """The process and whatever it started."""
    assert process.stdin
    process.stdin.close()
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def memory_peak_bytes(pid: int | None = None) -> int:
    """Largest resident size of a process so far (of its program: a parent's size before exec does not count)."""
    for line in Path(f"/proc/{pid or 'self'}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * 1024
    raise RuntimeError("the kernel does not say VmHWM")


def forget_memory_peak() -> None:
    """From now on this process's peak is that of what follows."""
    Path("/proc/self/clear_refs").write_text("5")


def _end_with_parent() -> None:
    """Nobody writes into our standard input; it ends when the process that started us does, however that ends."""
    os.read(0, 1)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _, module_name, arguments_json, out_file = sys.argv
    found = importlib.import_module(module_name).measure(**json.loads(arguments_json))
    Path(out_file).write_text(json.dumps(found))
