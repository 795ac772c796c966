PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test e2e lint bench dashboards

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: .venv/ready  ## the whole main job on this machine: telemetry in, dashboard, report and bill out
	$(BIN)/tokenpath demo

test: .venv/ready  ## all tests; those that cannot run here say why
	$(BIN)/pytest

e2e: .venv/ready  ## real serving software against a running `tokenpath up`, in environments of its own under .e2e/
	$(BIN)/pytest --override-ini python_files='live_*.py' --verbose tests/e2e

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready  ## ratios and absolute figures of this machine
	$(BIN)/python -m tests.bench

dashboards: .venv/ready  ## writes dashboards/json from the panel definitions
	$(BIN)/tokenpath dashboards build
