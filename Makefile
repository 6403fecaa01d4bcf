# Each command does its own set-up: a first call installs into .venv what it needs, later calls don't. `make demo` needs
# the core, `make book` the tools without PyTorch, everything else what developers need too.
PYTHON ?= python3
BIN := .venv/bin
FIND_PYTHON := command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found: CoSee needs Python 3.11 or newer."; exit 1; }
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --tb=short -n 3 --dist worksteal --durations 20

# Compiled modules are kept: a run starts hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo book test test-all lint sync docs lab clean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## install everything that tests and notebooks use into .venv
	@$(FIND_PYTHON)
	@$(PYTHON) tools/env.py

demo:  ## ask questions about a sample document and open the evidence
	@$(FIND_PYTHON)
	@$(PYTHON) tools/env.py core
	@$(BIN)/cosee demo

book:  ## run the notebooks of the book, but for two that need PyTorch, and compare all prompts
	@$(FIND_PYTHON)
	@$(PYTHON) tools/env.py book
	@$(PYTEST) tests/test_golden.py tests/test_notebooks.py \
		-k "(golden and not qwen and not servers) or 01_board or 02_agents or 03_controller or 05_metrics or 06_baselines or 07_experiments"

test: setup  ## run the tests of every capability, and the notebooks of the book
	@$(PYTEST) $(PYTEST_ARGS)

test-all: setup  ## run everything: slow tests, browsers, faults, benchmarks, all notebooks
	@$(PYTEST) -m "" $(PYTEST_ARGS)
	@OMP_NUM_THREADS=1 $(BIN)/nbdev_test --n_workers 2

lint: setup  ## look at code, types, imports, style sheets and scripts
	@$(BIN)/ruff check .
	@$(BIN)/basedpyright
	@$(BIN)/lint-imports --no-cache
	@if command -v npx >/dev/null; then tools/lint_assets.sh; else echo "no npx: style sheets and scripts not looked at"; fi

sync: setup  ## export and clean with nbdev, then make README.md and the sidebar
	@$(BIN)/python tools/sync.py

docs: setup  ## build the documentation site into _docs/ and check its links
	@$(BIN)/python tools/docs.py

lab: setup  ## open the notebooks in JupyterLab
	@$(BIN)/jupyter lab --config=tools/lab_config.py

clean:  ## remove what was built (keeps .venv)
	rm -rf _docs _proc build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache nbs/nbdev.yml
	find cosee nbs tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
	find nbs -name .ipynb_checkpoints -type d -prune -exec rm -rf {} +
