# `make demo` and `make test` need only Python 3.11+. The first run creates .venv and installs everything.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-fast test-all conformance campaign docs coverage architecture format clean

demo: $(INSTALLED)
	$(BIN)/harmonium demo

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal

# Skips tests marked slow; tests/conftest.py has the rule for the conformance suite.
test-fast: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal -m "not slow"

# Everything slow: all tests, every pair of units, the kernels under sanitizers with many random cases, and the campaign;
# about four hours.
test-all: test conformance
	FUZZ_ROUNDS=1000 $(BIN)/pytest -q tests/kernels -k sanitizers
	$(MAKE) campaign

# The conformance suite on every pair of units; `make test` has every unit with four partners.
conformance: $(INSTALLED)
	CONFORMANCE=all OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal tests/conformance

# Kills, concurrent writers, random commands and calls, and a soak of 30 minutes; about two hours.
# For a part of it: make campaign PARTS="--kills 50 --calls 1000"
campaign: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/python tests/campaign/run.py $(PARTS)

# Builds the documentation into build/site; open build/site/index.html.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

coverage: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'pytest-cov>=6'
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 --dist worksteal --cov --cov-report=term --cov-report=html

architecture: $(INSTALLED)
	$(BIN)/python tools/architecture.py

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov

# The constraints file pins torch; otherwise pip may install another build. An environment whose setup was interrupted
# is made again: without a working pip it cannot be completed, and without its configuration, which makes the Python in it
# one with a prefix of its own, pip would install into the Python of the system.
$(INSTALLED): pyproject.toml constraints.txt setup.py $(wildcard src/harmonium/kernels/*.[ch])
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "harmonium needs Python 3.11 or newer, found " + sys.version.split()[0])'
	$(BIN)/python -c 'import sys, pip; sys.exit(sys.prefix == sys.base_prefix)' > /dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(INSTALLED)
