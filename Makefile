# Everything runs in .venv, which the first target builds. Needs Python 3.11 or newer and make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --disable-pip-version-check --quiet --no-compile --constraint constraints.txt

.PHONY: setup demo demo-train test test-method test-rest check docs bench clean

setup: .venv/dev  ## all extras, the tools and the package of the paper's tables

.venv/ask: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	@echo "Setting up .venv (once, one to two minutes) ..."
	@$(PYTHON) -m venv .venv
	@$(PIP) torch==$$(sed -n 's/^torch==//p' constraints.txt)
	@$(PIP) --editable .[sql]
	@touch $@

.venv/dev: .venv/ask paper/pyproject.toml
	@echo "Adding all extras and the development tools ..."
	@$(PIP) --editable .[all,dev] --editable paper
	@touch $@

demo: .venv/ask  ## five questions to the bundled databases, and the score of the shipped model
	@$(BIN)/dtfixup demo

demo-train: .venv/dev  ## 24 new layers on MiniLM, trained three ways: a table and out/demo/demo.png
	@$(BIN)/dtfixup demo-train

# Counting lines makes Python more than twice as slow, so only the tests of what is counted are run that way.
COUNTED := fixup transformer
PYTEST := pytest --numprocesses auto --dist loadfile --no-loadscope-reorder
test: test-method test-rest  ## the whole suite, and the coverage of the method and its layers

test-method: .venv/dev
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m $(PYTEST) $(foreach room,$(COUNTED),tests/$(room) src/dtfixup/$(room))
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --fail-under=95 --skip-covered

test-rest: .venv/dev
	@$(BIN)/$(PYTEST) $(foreach room,$(COUNTED),--ignore=tests/$(room) --ignore=src/dtfixup/$(room))

check: .venv/dev  ## style, types, import order, and whether the reference pages are stale
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/mypy
	@$(BIN)/python -m tools.docs.reference --check

docs: .venv/dev  ## the reference pages from the code, then the site in site/; a broken link fails
	@$(BIN)/python -m tools.docs.reference
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# measure.py is shared code; the others need a GPU, a trained folder or Spider, prepared: benchmarks/README.md.
SKIPPED := $(addprefix benchmarks/,gradient_gain.py measure.py pack_loss.py paper_step.py scales.py stability.py)
bench: .venv/dev  ## the measurements that need neither a GPU nor data; about an hour
	@for file in $(filter-out $(SKIPPED),$(wildcard benchmarks/*.py)); do echo "$$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .coverage* build site
