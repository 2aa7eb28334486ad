# Two commands set everything up on a machine with Python 3.11 or newer: `make demo` and `make test`.
.DELETE_ON_ERROR:
.PHONY: demo test fuzz lint clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Runs the whole workflow on synthetic volumes and prints the verdict and where the report is.
demo: $(VENV)/.installed
	$(BIN)/snakemake --cores all --configfile workflow/config/demo.yaml
	@$(BIN)/speedproof verdict --from results/demo

# The tests, those of whole workflow runs included.
test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 2

# Spoilt inputs, 10,000 of each target; writes the table of docs/fuzzing.md. FUZZ=exports runs one target.
fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --document $(FUZZ)

# Style, types, and Snakemake's own checks.
lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/rules
	$(BIN)/snakemake --lint

# requirements.lock pins every package, torch's CUDA build among them unless your pip is told of another.
$(VENV)/.installed: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

clean:
	rm -rf $(VENV) results .snakemake
