# Everything a developer or an operator starts by hand. `.ci/run` calls `make check`.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster run test coverage test-pure check lint types layers kubernetes bench reference lock clean

help: ## Show what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-12s %s\n", $$1, $$2}'

$(STAMP): requirements/dev.txt
	@echo "installing what is needed into $(VENV), once: about a minute"
	@$(PYTHON) tools/install.py $(VENV) requirements/dev.txt

run: ## Start the detector on this machine's kernel log (needs root)
	@[ "$$(id -u)" = 0 ] || { echo "make run: needs root to read /dev/kmsg (try: sudo make run)"; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) tools/install.py $(VENV) requirements/run.txt
	$(BIN)/python -m detector run --kubernetes off $(ARGS)

demo: $(STAMP) ## Show what it does, in a minute; needs neither root nor a cluster
	@$(BIN)/python -m demo $(ARGS)

demo-cluster: $(STAMP) ## Show the same on a real Kubernetes API server (needs Go)
	@command -v go >/dev/null || { echo "make demo-cluster: needs Go 1.26 or newer on PATH, to build Kubernetes (make demo does not)"; exit 1; }
	@ls .cache/kubernetes/*/bin/kubectl >/dev/null 2>&1 || echo "Kubernetes is built once; on two cores that takes about 5 minutes"
	@$(PYTHON) tests/kubernetes/build.py >/dev/null
	@$(BIN)/python -m demo --cluster $(ARGS)

test: $(STAMP) kubernetes ## Run all tests (needs root, Debian and Go)
	$(BIN)/python -m pytest $(ARGS)

coverage: $(STAMP) ## Show which branches the pure tests leave out
	$(BIN)/python -m pytest -m pure --cov --cov-report=term-missing:skip-covered $(ARGS)

test-pure: $(STAMP) ## Run the tests that need neither root nor Go
	$(BIN)/python -m pytest -m pure $(ARGS)

kubernetes: ## Build the Kubernetes that the tests run against (cached)
	@tools/prerequisites.sh

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

check: lint types layers test ## Run everything that CI runs

bench: $(STAMP) ## Measure; see docs/benchmarks.md (needs root and a quiet machine)
	$(BIN)/python -m compileall -q runtime detector recovery $(VENV)/lib >/dev/null || true
	$(BIN)/python -m bench.run $(ARGS)

reference: $(STAMP) ## Write anew what is made of other files: docs/reference.md, the PrometheusRule
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/prometheus_rule.py

lock: ## Resolve the dependencies anew
	uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-annotate --no-header --no-emit-index-url pyproject.toml -o requirements/run.txt
	uv pip compile -q --universal --generate-hashes --python-version 3.11 --no-annotate --no-header --no-emit-index-url pyproject.toml --group dev -o requirements/dev.txt

clean: ## Remove what was built
	rm -rf $(VENV) .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
