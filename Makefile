# Each command does its own set-up: a first call installs into .venv what it needs, later calls don't. `make demo` needs
# the core, everything else what developers need too.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help python core setup demo test random faults docs lab sync check lint refresh clean distclean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

python:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found: CoSee needs Python 3.11 or newer."; exit 1; }

core: python
	@$(PYTHON) tools/env.py core

setup: python  ## install everything that tests and notebooks use into .venv
	@$(PYTHON) tools/env.py

demo: core  ## ask questions about a sample document and open the evidence
	@$(BIN)/cosee demo

test: setup  ## run every notebook and every test
	@echo "Every notebook and every test, in two processes: about 25 minutes on two cores. The slowest are named at the end."
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --tb=short -n 2 --dist loadfile --durations 25 tests $(PYTEST_ARGS)

random: setup  ## run the quick tests in random order (SEED=7 for a certain one, ALL=1 for every file alone)
	@$(BIN)/python tools/quick_tests.py $(if $(SEED),--seed $(SEED)) $(if $(ALL),--all)

faults: setup  ## kill, starve, deceive and overfill CoSee, as often as it takes (ARGS=--quick for the short form)
	@$(BIN)/python tools/faults.py $(ARGS)

docs: setup  ## build the documentation site into _docs/ and check its links
	@$(BIN)/python tools/docs.py

lab: setup  ## open the notebooks in JupyterLab
	@$(BIN)/jupyter lab --config=tools/lab_config.py

sync: setup  ## export, clean, README and sidebar from the notebooks
	@$(BIN)/python tools/sync.py

check: setup  ## compare package, notebooks and README, without running anything
	@$(BIN)/python tools/check.py

lint: setup  ## hold code, style sheets and scripts against linters, types and the house rules (about a minute)
	@$(BIN)/python tools/lint.py
	@if command -v npx >/dev/null; then tools/lint_assets.sh; else echo "no npx: style sheets and scripts not looked at"; fi

refresh: setup  ## run notebooks, store their outputs, sync (NB=nbs/01_board.ipynb for one)
	@$(BIN)/python tools/run_notebooks.py $(NB)

clean:  ## remove what was built (keeps .venv)
	rm -rf _docs _proc build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache nbs/nbdev.yml
	find cosee nbs tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
	find nbs -name .ipynb_checkpoints -type d -prune -exec rm -rf {} +

distclean: clean  ## remove .venv too
	rm -rf .venv
