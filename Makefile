PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench dashboards

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: .venv/ready  ## the whole main job on this machine: telemetry in, dashboard, report and bill out
	$(BIN)/tokenpath demo

test: .venv/ready  ## all tests; those that cannot run here say why
	$(BIN)/pytest

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready  ## ratios and absolute figures of this machine
	$(BIN)/python -m tests.bench

dashboards: .venv/ready  ## writes dashboards/json from the panel definitions
	$(BIN)/tokenpath dashboards build
