# Every target installs what it needs into .venv: a fresh clone, Python 3.11 or newer and make are enough.
# The interop tests and the benchmark also use Java, Maven and a C compiler, if installed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
WITH_SPARK := $(VENV)/.with-spark
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
LANE := $(BIN)/python -m tests.lane
# The second lane has what waits for JVMs and for other processes, but for the documents: so both take about as long.
BESIDE := tests/interop tests/spark
DOCUMENTS := tests/test_documents.py tests/test_examples.py
OURS := tests $(addprefix --ignore=,$(BESIDE))

.DEFAULT_GOAL := help
.PHONY: help setup demo run quick test coverage check format bench chaos chaospair interop fuzz fuzzlive clean

help: ## show this list
	@awk -F':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

NEEDED := pyproject.toml constraints.txt build_hook.py $(wildcard $(addprefix src/hanabi/*/,_*.pyx _*.pxd */_*.pyx */_*.pxd))
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

# The package alone; the tools and Spark are half a gigabyte more.
$(INSTALLED): $(NEEDED)
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Hanabi needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): about half a minute"
	$(INSTALL) .
	@touch $@

$(WITH_SPARK): $(INSTALLED)
	@echo "installing Spark: some minutes unless it is in pip's cache"
	$(INSTALL) '.[spark]'
	@touch $@

$(READY): $(INSTALLED)
	@echo "installing the development tools and Spark: some minutes unless they are in pip's cache"
	$(INSTALL) '.[dev]'
	@touch $@

setup: $(READY) ## create .venv with everything that development needs

demo: $(WITH_SPARK) ## start a cluster, send and consume every kind of message, run a Spark pipeline (KEEP=1: keep it running)
	$(BIN)/python examples/demo.py $(if $(KEEP),--keep)

run: $(INSTALLED) ## serve a name server and a broker on 127.0.0.1, data in ./hanabi-data
	$(BIN)/hanabi serve

test: $(READY) ## run every test that this machine can run (SLOW=1: also those that take minutes)
	@echo "two lanes in parallel, about half an hour on two cores; each prints its result at its end"
	$(if $(SLOW),HANABI_SLOW_TESTS=1) $(MAKE) --no-print-directory --jobs=2 --output-sync=target test-ours test-beside
	@$(LANE)

# Two processes of about equal work: with two cores there is little that a scheduler of tests could do better.
quick: $(READY) ## run the tests of everyday work: no JVM, no command line; under two minutes on two cores
	HANABI_QUICK=1 $(MAKE) --no-print-directory --jobs=2 --output-sync=target quick-files quick-sockets

.PHONY: quick-files quick-sockets
quick-files:
	$(PYTEST) -q -m 'not long' tests/wire tests/store tests/broker

quick-sockets:
	$(PYTEST) -q -m 'not long' tests/remoting tests/namesrv tests/client tests/metrics \
	    $(filter-out $(DOCUMENTS) tests/test_deploy.py tests/test_lane.py, $(wildcard tests/test_*.py))

.PHONY: test-ours test-beside
test-ours:
	$(LANE) ours $(OURS)
	HANABI_PURE_PYTHON=1 $(PYTEST) -q -m pure $(OURS)

test-beside:
	$(LANE) beside $(BESIDE)

coverage: $(READY) ## run the tests and report the lines that no test runs
	$(PYTEST) --cov=hanabi --cov-report=term

check: $(READY) ## run formatter, linter and type checker; changes nothing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(READY) ## format the code and apply the linter's fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(READY) ## measure Hanabi and Apache RocketMQ side by side (45 minutes; QUICK=1: five minutes)
	$(BIN)/python -m benches $(if $(QUICK),--quick) $(ARGS)

MINUTES ?= 5
chaos: $(READY) ## kill, stop, cut off and starve a cluster under traffic, check its history (MINUTES=5 SEED=n)
	$(BIN)/python -m chaos --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

chaospair: $(READY) ## the same for a master and its slave, until the master is lost (MINUTES=5 SEED=n ARGS="--role ASYNC_MASTER")
	$(BIN)/python -m chaos.pair --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

interop: $(READY) ## run only the tests with Apache RocketMQ's own programs
	$(PYTEST) tests/interop -v

fuzz: $(READY) ## feed broken bytes to every decoder for a few minutes
	HANABI_FUZZ_EXAMPLES=$${HANABI_FUZZ_EXAMPLES:-200000} $(PYTEST) tests/wire -k fuzz -v

fuzzlive: $(READY) ## send broken requests to live servers while a normal client works (MINUTES=5 SEED=n)
	$(BIN)/python -m chaos.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(ARGS)

clean: ## remove generated files: environment, caches, Apache's jars
	rm -rf $(VENV) .interop .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage htmlcov build dist benches/out chaos/out
	find src -name '_*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
