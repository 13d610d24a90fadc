# Every target sets up .venv by itself; after that only .venv/bin/... is called.
.PHONY: demo test unit test-slow lint format types bench docs docs-links notebooks train-reacher clean venv
.DEFAULT_GOAL := test

BIN := .venv/bin
# Small matrices: a second thread in OpenBLAS costs more than it gives.
export OPENBLAS_NUM_THREADS ?= 1
# A process that keeps no bytecode compiles everything that it imports: seven seconds for each.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode

venv:
	@sh .ci/venv.sh

demo: venv
	$(BIN)/bayesdice demo -o demo-output --overwrite

# The type checker has one process: it runs beside the tests, and not before them.
test: venv lint
	@$(MAKE) --no-print-directory -j 2 types unit

unit: venv
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

test-slow: venv
	@sh .ci/venv.sh docs notebooks
	$(BIN)/python -m pytest -m slow

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: venv
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# mypy cannot see through package_dir, so it reads the wheel as installed elsewhere.
types: venv
	$(BIN)/python .ci/check_types.py

bench: venv
	$(BIN)/python -m benchmarks all

# The source folder is the repository: see docs/conf.py. The site begins at docs/_build/html/index.html.
SPHINX := $(BIN)/sphinx-build --fail-on-warning --keep-going --conf-dir docs --doctree-dir docs/_build/doctrees

docs: venv
	@sh .ci/venv.sh docs
	$(SPHINX) --write-all --builder html . docs/_build/html

# Links to other sites: needs a network.
docs-links: venv
	@sh .ci/venv.sh docs
	$(SPHINX) --builder linkcheck . docs/_build/linkcheck

# Scripts with their outputs beside them; of some alone: make notebooks ONLY="04_trust 06_scores".
notebooks: venv
	@sh .ci/venv.sh notebooks
	$(BIN)/python .ci/notebooks.py $(ONLY)

# In an environment of its own: PyTorch is large, and nothing else needs it.
train-reacher: venv
	$(BIN)/python -m venv --clear .venv-training
	.venv-training/bin/python -m pip install --quiet --editable '.[training]'
	OMP_NUM_THREADS=1 .venv-training/bin/python benchmarks/train_reacher.py

clean:
	rm -rf .venv .venv-training build dist demo-output docs/_build *.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
