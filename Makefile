# forkhost. `make up` and `make test` work on a fresh machine; ARGS="..." is handed on to the command.

PYTHON ?= python3
RUN := .venv/bin/python
ARGS ?=

.PHONY: up demo test test-sqlite test-postgres setup setup-runtime lint fmt bench faults soak lock openapi

up: setup-runtime
	@exec $(RUN) manage.py up $(ARGS)

demo: setup-runtime
	@exec $(RUN) manage.py demo $(ARGS)

# The environment: at once when nothing changed.
setup:
	@$(PYTHON) requirements/install.py dev

setup-runtime:
	@$(PYTHON) requirements/install.py runtime

# The whole suite, once on each database.
test: setup
	@$(RUN) -m tests.machine
	@$(RUN) -m tests.run $(ARGS)

test-sqlite: setup
	@$(RUN) -m tests.run --only sqlite $(ARGS)

test-postgres: setup
	@$(RUN) -m tests.run --only postgresql $(ARGS)

lint: setup
	@$(RUN) -m tests.lint $(ARGS)

fmt: setup
	@.venv/bin/ruff check --fix --quiet . ; .venv/bin/ruff format --quiet .
	@find templates -name '*.html' -exec .venv/bin/djade --target-version 5.2 {} +

# The promises as numbers.
bench: setup
	@$(RUN) -m tests.bench $(ARGS)

# A thousand kill -9 and other faults, on both databases and with every agent; exits non-zero when a fork is lost or doubled.
faults: setup
	@$(RUN) -m tests.machine
	@$(RUN) -m tests.faults $(ARGS)

# Random runs over the whole saga: ten thousand steps per contract and database, an invariant checked after each; prints its seed.
soak: setup
	@$(RUN) -m tests.machine
	@$(RUN) -m tests.random_runs $(ARGS)

# Write openapi.json anew after the API changed on purpose.
openapi: setup
	@$(RUN) -m tests.lint --write-openapi

# Pin everything again, to the newest releases that the .in files allow.
LOCK = .venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--custom-compile-command "make lock" --upgrade
lock: setup
	@$(LOCK) requirements/runtime.in -o requirements/runtime.txt
	@$(LOCK) -c requirements/runtime.txt requirements/dev.in -o requirements/dev.txt
