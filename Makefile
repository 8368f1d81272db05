# Everything sets itself up: `make demo` and `make test` work from a fresh clone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# How many threads BLAS and OpenMP may use in the tests, and which tests to run: all, or folders and files.
THREADS ?= 1
TESTS ?=
PYTEST = OMP_NUM_THREADS=$(THREADS) OPENBLAS_NUM_THREADS=$(THREADS) $(BIN)/python -m pytest -q -n 2 --dist worksteal

.PHONY: demo test readme explore lint forms torch docs papers bench peers choice large mutants build release clean

demo: $(VENV)/core
	$(BIN)/onefold demo

test: lint
	$(PYTEST) $(TESTS)

# README.md from top to bottom in an environment of its own; nothing is run where nothing can be installed (77).
readme: $(VENV)/bin/python
	$(BIN)/python -m tests.tools.readme || test $$? -eq 77

# New examples for the property tests; what they find becomes a plain test.
explore: $(VENV)/dev
	ONEFOLD_EXPLORE=1 $(PYTEST) -m hypothesis

lint: forms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The files of hosted services follow their schemas.
SCHEMA = $(BIN)/check-jsonschema --builtin-schema
forms: $(VENV)/dev
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/idea.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml

# The site, with every example executed; warnings are errors. Open docs/_build/html/index.html.
docs: $(VENV)/docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Every table and figure of the five papers, in hours; `python -m papers KEY PART` makes one.
papers: $(VENV)/dev
	$(BIN)/python -m papers

bench: $(VENV)/dev
	$(BIN)/python -m benchmarks.exact

# Other libraries on the same rows, each in an environment of its own; goes on where it was stopped.
# ONEFOLD_DATA says where the tables are. `make large` takes the large ones, with DEVICE=cuda on a GPU.
peers: $(VENV)/dev
	$(BIN)/python -m benchmarks.peers small medium large tables report

DEVICE ?= cuda
large: $(VENV)/dev
	$(BIN)/python -m benchmarks.peers big report --device $(DEVICE)

# Whether the default choice for tables is right, beside LightGBM and CatBoost; goes on where it was stopped.
choice: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --group peers
	$(BIN)/python -m benchmarks.choice run benchmarks/results/choice --workers 2

# The mutants of a folder that its tests do not notice; [tool.mutmut] of pyproject.toml names the folder.
mutants: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --group mutants
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/mutmut run
	$(BIN)/mutmut results

build: $(VENV)/dev
	$(BIN)/python -m build

# The wheel and the source archive in empty environments, with the oldest and the newest supported versions.
release: build
	$(BIN)/nox

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

# PyTorch, for the tests that need it.
torch: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --group torch

$(VENV)/docs: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable . --group docs
	touch $@

clean:
	rm -rf $(VENV) build dist docs/_build docs/gallery docs/api/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .nox mutants
