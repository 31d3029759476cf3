# `make quickstart` and `make test` set up a fresh machine by themselves: Python 3.11 or later is all they need.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Tests start many processes: where bytecode is not kept, each compiles the whole package anew.
export PYTHONDONTWRITEBYTECODE :=
OUT ?= results/quickstart
# The versions that are known to work together; `make latest` tries the newest ones. `make lock` writes this file anew.
CONSTRAINTS ?= constraints.txt

.PHONY: quickstart test lint types tests slow lock latest docs torture clean

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
	$(BIN)/pytest tests_next -m slow -n auto --dist loadfile

# An environment of the newest versions, written down but for what torch brings for this machine's kind of GPU.
lock:
	rm -rf build/lock
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --editable '.[dev]'
	{ echo '# Versions that are tested together; `make lock` writes this file.'; \
	  build/lock/bin/python -m pip freeze --exclude-editable | grep -v -e ' @ ' -e '^nvidia-' -e '^triton==' -e '^cuda-'; } >constraints.txt

latest:
	$(MAKE) test VENV=build/latest CONSTRAINTS=/dev/null

# The site, from pages, notebooks that are executed, and docstrings; no network. COLD=--cold executes notebooks that did not change, too.
COLD ?=
docs: $(VENV)/.dev
	$(BIN)/python docs/build_site.py $(COLD)

# Hours: hostile files, kills, flipped bits, bad servers and disks. SEED=2 makes other cases.
SEED ?= 1
torture: $(VENV)/.dev
	$(BIN)/python -m torture.study_files --cases 2000 --seed $(SEED)
	$(BIN)/python -m torture.score_files --cases 1000 --seed $(SEED)
	$(BIN)/python -m torture.onnx_files --cases 500 --seed $(SEED)
	$(BIN)/python -m torture.label_studio_files --cases 500 --seed $(SEED)
	$(BIN)/python -m torture.tables --cases 500 --seed $(SEED)
	$(BIN)/python -m torture.images --cases 200 --seed $(SEED)
	$(BIN)/python -m torture.servers --seed $(SEED)
	$(BIN)/python -m torture.clocks --cases 40 --seed $(SEED)
	$(BIN)/python -m torture.interruptions --cases 60 --seed $(SEED)
	$(BIN)/python -m torture.disks --seed $(SEED)
	$(BIN)/python -m torture.kills --cases 100 --seed $(SEED)
	$(BIN)/python -m torture.flips --cases 10000 --seed $(SEED)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.quickstart: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[quickstart]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) results build dist
