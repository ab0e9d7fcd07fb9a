# Each target does its own set-up. `make run` and `make test` are all that a fresh machine needs.
PYTHON ?= python3
CONFIG ?= reviews
BIN := .venv/bin
READY := .venv/.ready
# The site is built by packages of its own, so that what runs and tests needs none of them.
DOCS := .venv-docs/bin
DOCS_READY := .venv-docs/.ready
# uv resolves what pip refuses (TFX's upper bound on Python; see docs/decisions/adr-1-python-and-pins.md).
UV := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
# uv does not read pip's settings; an index that pip was given is passed on.
PIP_INDEX := $(shell $(PYTHON) -m pip config get global.index-url 2>/dev/null)
# Whole files go to the workers in the order of tests/conftest.py, the longest first.
PYTEST = pytest -n $(or $(WORKERS),2) --dist loadfile --no-loadscope-reorder --durations=15 tests

.PHONY: run test test-full parity style check bench audit docs docs-serve docs-reference setup lock clean help
.DEFAULT_GOAL := help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/'

run: $(READY) ## raw text to a pushed model, on the sample; CONFIG=my.yaml for your own
	@$(BIN)/bertline run $(CONFIG)

test: $(READY) ## what a change must pass, in two processes; WORKERS=4 for more, COVERAGE=1 to count the lines that it runs
ifdef COVERAGE
	@rm -rf build/coverage && mkdir -p build/coverage
	$(BIN)/python -m coverage run -m $(PYTEST) -m "not full"
	@$(BIN)/python tests/coverage_table.py
else
	$(BIN)/python -m $(PYTEST) -m "not full"
endif

test-full: $(READY) ## every test there is, the long ones too
	$(BIN)/python -m $(PYTEST)

parity: $(READY) ## every number of the encoders beside PyTorch's; needs the extra `parity`, and says how to install it
	$(BIN)/python -m pytest tests/parity

style: $(READY) ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

check: style ## style, types and the unit tier
	$(BIN)/python -m pytest tests/unit

bench: $(READY) ## measurements, each printed as ratios of one run
	@for file in tests/benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

audit: | $(UV) ## known vulnerabilities of what the locks install; asks PyPI's list, and fails where it cannot be had
	$(UV) tool run pip-audit --strict --disable-pip --no-deps -r requirements.lock -r requirements-cpu.lock -r requirements-gpu.lock -r locks/docs.lock

docs: $(DOCS_READY) ## the documentation as a site, in build/site; a broken link stops it
	$(DOCS)/mkdocs build --strict --quiet

docs-serve: $(DOCS_READY) ## the same on http://127.0.0.1:8000, rebuilt after every change
	$(DOCS)/mkdocs serve --dev-addr 127.0.0.1:8000

docs-reference: $(READY) ## writes the pages that are made from the code anew: settings and commands
	$(BIN)/python docs/generate.py

setup: $(READY) ## only the environment in .venv

.uv/bin/uv:
	@{ $(PYTHON) -m venv .uv && .uv/bin/python -m pip install -q uv; } || \
	  { echo "set-up needs uv, or python3 with venv and pip (Debian: apt-get install python3-venv)" >&2; exit 1; }

$(READY): requirements.lock pyproject.toml | $(UV)
	@echo "setting up .venv (a minute or two) …"
	@# Compiled once here: TensorFlow's thousands of modules are then imported in seconds, also where Python may not write.
	@export UV_HTTP_TIMEOUT=300; test -z "$(PIP_INDEX)" || export UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$(PIP_INDEX)}"; \
	  $(UV) venv -q --python 3.11 --seed --allow-existing .venv && \
	  $(UV) pip sync -q --compile-bytecode --python $(BIN)/python requirements.lock && \
	  $(UV) pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

$(DOCS_READY): locks/docs.lock | $(UV)
	@echo "setting up .venv-docs …"
	@export UV_HTTP_TIMEOUT=300; test -z "$(PIP_INDEX)" || export UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$(PIP_INDEX)}"; \
	  $(UV) venv -q --python 3.11 --allow-existing .venv-docs && $(UV) pip sync -q --python $(DOCS)/python locks/docs.lock
	@touch $@

lock: | $(UV) ## compiles requirements.lock (tests), those of the image for CPUs and for GPUs, and that of the site, anew
	$(UV) pip compile -q pyproject.toml --extra samples --extra test --extra kubeflow --extra s3 --extra gcs --extra excel --extra postgres --extra cpu --override locks/cpu-overrides.txt \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements.lock
	$(UV) pip compile -q pyproject.toml --extra kubeflow --extra s3 --extra gcs --extra excel --extra postgres --extra cpu --override locks/cpu-overrides.txt -c requirements.lock \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements-cpu.lock
	$(UV) pip compile -q pyproject.toml --extra samples --extra kubeflow --extra s3 --extra gcs --extra excel --extra postgres --extra gpu \
	  --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o requirements-gpu.lock
	$(UV) pip compile -q --group pyproject.toml:docs --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -o locks/docs.lock

clean: ## removes the workspace; the environment stays
	rm -rf workspace
