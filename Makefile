# Every target sets up what it needs in .venv by itself: a fresh clone, Python 3.11 or newer and make are enough.
# The interop tests and the benchmark also use Java and Maven, and a C compiler, where they are there.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WITH_SPARK := $(VENV)/.with-spark
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
LANE := $(BIN)/python -m tests.lane
OURS := tests --ignore=tests/interop --ignore=tests/spark

.DEFAULT_GOAL := help
.PHONY: help setup demo run test coverage check format bench chaos interop fuzz fuzzlive clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

NEEDED := pyproject.toml constraints.txt build_hook.py $(wildcard $(addprefix src/hanabi/*/,_*.pyx _*.pxd */_*.pyx */_*.pxd))
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

# The package alone, for those who want to see it; the tools and Spark are half a gigabyte more.
$(INSTALLED): $(NEEDED)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hanabi needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): half a minute"
	$(INSTALL) .
	@touch $@

$(WITH_SPARK): $(INSTALLED)
	@echo "installing Spark: some minutes when it is not in pip's cache"
	$(INSTALL) '.[spark]'
	@touch $@

$(READY): $(INSTALLED)
	@echo "installing what development needs, Spark too: a few minutes when it is not in pip's cache"
	$(INSTALL) '.[dev]'
	@touch $@

setup: $(READY) ## make .venv with everything that development needs

demo: $(WITH_SPARK) ## a cluster, every kind of message through it, a pipeline on Spark over them (KEEP=1: it goes on)
	$(BIN)/python examples/demo.py $(if $(KEEP),--keep)

run: $(INSTALLED) ## serve: a name server and a broker on 127.0.0.1, data in ./hanabi-data
	$(BIN)/hanabi serve

test: $(READY) ## run every test that this machine can run (SLOW=1: those that take minutes, too)
	@echo "two halves at once, a quarter of an hour on two cores; each tells when it is done"
	$(if $(SLOW),HANABI_SLOW_TESTS=1) $(MAKE) --no-print-directory --jobs=2 --output-sync=target test-ours test-beside
	@$(LANE)

.PHONY: test-ours test-beside
test-ours:
	$(LANE) ours $(OURS)
	HANABI_PURE_PYTHON=1 $(PYTEST) -q -m pure $(OURS)

test-beside:
	$(LANE) beside tests/interop tests/spark

coverage: $(READY) ## the same, and which lines no test has run
	$(PYTEST) --cov=hanabi --cov-report=term

check: $(READY) ## formatter, linter, type checker; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY) ## format the code and mend what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## measure us and Apache RocketMQ side by side (45 minutes; QUICK=1: five minutes, for a look)
	$(BIN)/python -m benches $(if $(QUICK),--quick) $(ARGS)

MINUTES ?= 5
chaos: $(READY) ## kill, stop, cut off and starve a cluster under traffic, and judge it (MINUTES=5 SEED=n)
	$(BIN)/python -m chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

interop: $(READY) ## only the tests with Apache RocketMQ's own programs
	$(PYTEST) tests/interop -v

fuzz: $(READY) ## feed broken bytes to every decoder for a few minutes
	HANABI_FUZZ_EXAMPLES=$${HANABI_FUZZ_EXAMPLES:-200000} $(PYTEST) tests/wire -k fuzz -v

fuzzlive: $(READY) ## broken requests against live servers, while a normal client is served (MINUTES=5 SEED=n)
	$(BIN)/python -m chaos.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

clean: ## remove what was made here: environment, caches, Apache's jars
	rm -rf $(VENV) .interop .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov build dist benches/out chaos/out
	find src -name '_*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
