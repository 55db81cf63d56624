# All commands for people. Set-up runs automatically, once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types layers pytest soak fuzz wheel from-wheel bench bench-check browser clock docs notebooks clean

help: ## List all targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

setup: $(VENV)/ready ## Create .venv with the tested packages

# Tests compare formulas with ByzFL's; what it asks for besides, torchvision among it, only its benchmark needs.
$(VENV)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps byzfl
	@touch $@

browser: ## Install Chromium for the tests of the page, where apt and the rights are there
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null \
	|| { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium > /dev/null; } \
	|| echo "Chromium could not be installed: the tests in a browser will be skipped."

clock: ## Install libfaketime for the tests of wrong clocks, where apt and the rights are there
	@ls /usr/lib/*/faketime/libfaketimeMT.so.1 > /dev/null 2>&1 \
	|| { apt-get update -qq && apt-get install -qq -y --no-install-recommends libfaketime > /dev/null; } \
	|| echo "libfaketime could not be installed: the tests of wrong clocks will be skipped."

demo: setup ## Compare FedeRiCo with local training and FedAvg on real digits: a table and a report, in a minute
	$(BIN)/federico run experiments/digits.toml > /dev/null
	$(BIN)/federico report runs/digits

test: setup lint types layers pytest ## Run everything that CI runs

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/mypy

layers: setup
	$(BIN)/lint-imports

pytest: setup browser clock
	$(BIN)/pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

soak: setup ## Run the tests that take minutes
	$(BIN)/pytest -m slow

fuzz: setup ## Read a million corrupted messages and a million corrupted files; what came of it is added to benchmarks/results/fuzz.jsonl
	FEDERICO_FUZZ=1000000 FEDERICO_FUZZ_RECORD=benchmarks/results/fuzz.jsonl $(BIN)/pytest tests/network/test_fuzz.py tests/runs/test_spoilt_files.py

wheel: setup ## Build the package into dist/
	rm -rf build  # else files that are gone from src/ would still be packed
	$(BIN)/python -m build --wheel --no-isolation --outdir dist .

from-wheel: setup ## From the built wheel to predictions, ONNX and notebooks in a clean environment, timed
	$(BIN)/python -m benchmarks.from_wheel

bench: setup ## Measure everything, five processes a row, and write docs/reference-benchmarks.md (half an hour on two cores)
	$(BIN)/python -m benchmarks.run --write

bench-check: setup ## Measure again; fail if a ratio is worse than the stored one by more than its spread
	$(BIN)/python -m benchmarks.run --check

docs: setup ## Regenerate the generated pages of docs/
	$(BIN)/python docs/generate.py
	$(BIN)/python -m benchmarks.page

notebooks: setup ## Run the notebooks of `federico init notebook` and store their outputs in them
	$(BIN)/python docs/run_notebooks.py

clean: ## Remove .venv and caches; runs and data stay
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist src/*.egg-info
