# `make quickstart` and `make test` set up a fresh machine by themselves: Python 3.11 or later is all they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tests start many processes: where bytecode is not kept, each compiles the whole package anew.
export PYTHONDONTWRITEBYTECODE :=
OUT ?= results/quickstart

.PHONY: quickstart test lint types tests slow benchmarks clean

quickstart: $(VENV)/.quickstart
	$(BIN)/detector-bench quickstart --out $(OUT)

test: lint types tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

tests: $(VENV)/.dev
	$(BIN)/pytest -n auto --dist loadfile

slow: $(VENV)/.dev
	$(BIN)/pytest -m slow -n auto --dist loadfile

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.quickstart: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[quickstart]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) results build dist
