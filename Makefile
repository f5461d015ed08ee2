# Everything runs in .venv, which the first target builds. Needs Python 3.11 or newer and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --disable-pip-version-check --quiet --no-compile --constraint constraints.txt
# What pip would do on one core; some packages carry files for other versions of Python, which do not compile.
COMPILE := $(BIN)/python -m compileall -qq -j 0 .venv/lib || true

.PHONY: setup demo demo-train test check bench clean

setup: .venv/dev

.venv/run: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	@echo "Setting up .venv (once, one to two minutes) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) torch==$$(sed -n 's/^torch==//p' constraints.txt)
	@$(PIP) --editable .[web]
	@$(COMPILE)
	@touch $@

.venv/dev: .venv/run
	@$(PIP) --editable .[cluster,dev,web] --editable paper
	@$(COMPILE)
	@touch $@

demo: .venv/run  ## five questions to the bundled databases, and the score of the shipped model
	@$(BIN)/dtfixup sql demo

demo-train: .venv/run  ## 24 new layers on MiniLM, trained three ways: a table and out/demo/demo.png
	@$(BIN)/dtfixup demo

# Counting lines makes Python more than twice as slow, so only the tests of what is counted are run that way.
COUNTED := fixup transformer
PYTEST := pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
test: .venv/dev  ## the whole suite, and the coverage of the method and its layers
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m $(PYTEST) $(foreach each,$(COUNTED),tests/$(each) src/dtfixup/$(each))
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --fail-under=95 --skip-covered
	@$(BIN)/$(PYTEST) $(foreach each,$(COUNTED),--ignore=tests/$(each) --ignore=src/dtfixup/$(each))

check: .venv/dev  ## style, types, import order
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

LONG := $(addprefix benchmarks/,finetune.py gradient_gain.py limits.py pack_loss.py paper_step.py serve_load.py stability.py)
bench: .venv/dev  ## measurements that are ratios within one run, but for those that need a trained model, a prepared dataset or half an hour
	@for file in $(filter-out $(LONG),$(wildcard benchmarks/*.py)); do echo "$$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .coverage* build
