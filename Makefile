# Everything sets itself up: `make demo` and `make test` work from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test readme explore lint bench peers choice large build clean

demo: $(VENV)/core
	$(BIN)/onefold demo

test: lint
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

# README.md from top to bottom in an environment of its own; nothing is run where nothing can be installed (77).
readme: $(VENV)/bin/python
	$(BIN)/python -m tests.tools.readme || test $$? -eq 77

# New examples for the property tests; what they find becomes a plain test.
explore: $(VENV)/dev
	ONEFOLD_EXPLORE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal -m hypothesis

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks.exact

# Real tables beside other libraries, which are installed for it; ONEFOLD_DATA says where the tables are.
peers: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --group peers
	$(BIN)/python -m benchmarks.tables

# Whether the default choice for tables is right, beside LightGBM and CatBoost; goes on where it was stopped.
choice: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --group peers
	$(BIN)/python -m benchmarks.choice run benchmarks/results/choice --workers 2

# Large tables on the machine of DEVICE ("cuda", or "none" for the host), beside LightGBM and xrfm; goes on where it was stopped.
DEVICE ?= cuda
large: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --group peers
	$(BIN)/python -m benchmarks.large run benchmarks/results/large --device $(DEVICE)

build: $(VENV)/dev
	$(BIN)/python -m build

# Two levels of set-up: what the demonstration needs, and what development needs.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/core: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable ".[plot]"
	touch $@

# Dependency groups need a recent pip, also in an environment that was made by hand.
$(VENV)/dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group dev
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
