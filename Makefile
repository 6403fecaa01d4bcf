# make demo and make test do all their own set-up: a first call installs into .venv, later calls don't.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test random docs lab sync check lint refresh clean distclean

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) was not found: CoSee needs Python 3.11 or newer."; exit 1; }
	@$(PYTHON) tools/env.py

demo: setup  ## ask questions about a sample document and open the evidence
	@$(BIN)/cosee demo

test: setup  ## run every notebook and every test
	@echo "Every notebook and every test: about 20 minutes on two cores."
	@$(BIN)/python -m pytest -q --tb=short tests $(PYTEST_ARGS)

random: setup  ## run the quick tests in random order (SEED=7 for a certain one, ALL=1 for every file alone)
	@$(BIN)/python tools/quick_tests.py $(if $(SEED),--seed $(SEED)) $(if $(ALL),--all)

docs: setup  ## build the documentation site into _docs/ and check its links
	@$(BIN)/python tools/docs.py

lab: setup  ## open the notebooks in JupyterLab
	@$(BIN)/jupyter lab --config=tools/lab_config.py

sync: setup  ## export, clean, README and sidebar from the notebooks
	@$(BIN)/python tools/sync.py

check: setup  ## compare package, notebooks and README, without running anything
	@$(BIN)/python tools/check.py

lint: setup  ## hold the code against ruff, pyright and the house rules (about a minute)
	@$(BIN)/python tools/lint.py

refresh: setup  ## run notebooks, store their outputs, sync (NB=nbs/01_board.ipynb for one)
	@$(BIN)/python tools/run_notebooks.py $(NB)

clean:  ## remove what was built (keeps .venv)
	rm -rf _docs _proc build dist *.egg-info .pytest_cache .hypothesis .ruff_cache .mypy_cache nbs/nbdev.yml
	find cosee nbs tests tools -name __pycache__ -type d -prune -exec rm -rf {} +
	find nbs -name .ipynb_checkpoints -type d -prune -exec rm -rf {} +

distclean: clean  ## remove .venv too
	rm -rf .venv
