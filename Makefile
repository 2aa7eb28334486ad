# Two commands set everything up on a machine with Python 3.11 or newer: `make demo` and `make test`.
.DELETE_ON_ERROR:
.PHONY: demo test nnunet dear cluster faults adversary fuzz records recording lint docs release lock audit clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Every workload that is its own distribution. A new one needs no line here.
WORKLOADS := $(wildcard workloads/*/pyproject.toml)

# Let Python keep bytecode, whatever the environment sets: packages are installed uncompiled, and otherwise each process would
# compile torch for itself, which takes ten seconds or more.
export PYTHONDONTWRITEBYTECODE :=

# Run the whole workflow on synthetic volumes; print the verdict and what it means. A failed step prints its error, though
# Snakemake prints progress only.
demo: $(VENV)/.installed
	$(BIN)/snakemake --cores all --quiet host reason rules --configfile workflow/config/demo.yaml
	@$(BIN)/speedproof results show --from results/demo
	@echo
	@echo "Done: two training scripts ran four times each, in random order, on small synthetic CTs. The verdict is the first"
	@echo "sentence above: which one is faster on this machine, by how much, and how certain that is. This shows how speedproof"
	@echo "works, not how fast the scripts are on a GPU. To see the evidence, open results/demo/report.html in a browser."

# Run the tests, including whole workflow runs. TESTS="-m 'parts and not faults'" runs only those that need nsys, Apptainer, Slurm
# or a browser, including those of `make cluster`. Three processes on two cores, since many tests wait for programs.
test: $(VENV)/.installed
	$(BIN)/python -m pytest -n 3 --durations=20 $(TESTS)

# Install nnU-Net, 700 MB on disk, so that the tests of its trainer run, too. CI does not.
nnunet: $(VENV)/.nnunet

# Run the long tests that `make test` leaves to CI, minutes.
dear: $(VENV)/.installed
	$(BIN)/python -m pytest -m dear -n 2 --durations=10

# Run the workflow on a real Slurm, in a container that is built first, minutes. `.ci/slurm.sh up` starts Slurm on one machine;
# `.ci/base-image.sh FILE` makes the image that SPEEDPROOF_BASE_IMAGE names.
cluster: $(VENV)/.installed
	$(BIN)/python -m pytest tests/cluster -m 'cluster and not faults' -n 2 --durations=20

# Run the fault matrix, about an hour on one core, and write docs/reliability.md. PART=auto runs a few rows, chosen by the commit.
faults: $(VENV)/.installed
	mkdir -p results
	$(BIN)/python -m pytest tests/faults -m faults -v -n 2 --dist=worksteal --junitxml=results/faults.xml $(if $(PART),--part); \
	ended=$$?; $(if $(PART),,$(BIN)/python -m tests.faults.document docs/reliability.md results/faults.xml;) exit $$ended

# Test programs that cheat, drawn from three seeds each, and honest ones with frameworks; write docs/adversary.md.
# SEEDS="17" repeats the programs of a failed test and does not write the page.
adversary: $(VENV)/.installed
	mkdir -p results
	SPEEDPROOF_SEEDS="$(or $(SEEDS),3 by commit)" $(BIN)/python -m pytest tests/adversary tests/honest -m '' -n 2 \
		--junitxml=results/adversary.xml; \
	ended=$$?; $(if $(SEEDS),,$(BIN)/python -m tests.adversary.document docs/adversary.md results/adversary.xml;) exit $$ended

# Rebuild every record from its evidence, minutes; `make test` rebuilds those with few traces.
records: $(VENV)/.installed
	$(BIN)/python -m pytest tests/results/test_record.py -m 'not faults' -n 2

# Record the README's picture of a terminal again, two minutes. Nothing else should run meanwhile.
recording: $(VENV)/.installed
	PYTHONPATH=. $(BIN)/python -m benchmarks.terminal_recording --write

# Test malformed inputs, 10,000 per target; write the table of docs/fuzzing.md. FUZZ=exports runs one target.
fuzz: $(VENV)/.installed
	$(BIN)/python -m tests.fuzz --document $(FUZZ)

# Check style, types and the workflow.
lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/snakefmt --check Snakefile workflow/Snakefile workflow/rules
	$(BIN)/snakemake --lint

# Build the documentation site in results/docs/site, seconds. A broken link is an error. The generator has its own environment.
docs: $(VENV)/docs/.installed
	PYTHONPATH=.:src $(BIN)/python -m docs.build results/docs/pages
	$(VENV)/docs/bin/zensical build --clean --strict --config-file zensical.toml

$(VENV)/docs/.installed: $(VENV)/.installed pyproject.toml
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip install --quiet "$$(grep -o 'zensical==[0-9.]*' pyproject.toml)"
	touch $@

# Build a release in results/dist, check it, and prove two commands with it in clean environments: all but publishing. Two minutes.
release: $(VENV)/.installed
	bash .ci/release.sh build results/dist
	bash .ci/release.sh check results/dist || [ $$? = 3 ]
	PYTHON=$(PYTHON) bash .ci/release.sh try results/dist

# requirements.lock pins every package by its hash, including torch's CUDA build. requirements.cpu.lock has torch's CPU build
# instead, which the public index lacks. LOCK=FILE chooses one; default: the latter, if your pip finds that build
# (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS).
$(VENV)/.installed: requirements.lock requirements.cpu.lock pyproject.toml $(WORKLOADS)
	$(PYTHON) -m venv $(VENV)
	lock=$(LOCK); \
	if [ -z "$$lock" ]; then \
		cpu=$$(grep -o '^torch==[^ ]*' requirements.cpu.lock); \
		lock=requirements.lock; \
		! $(BIN)/python -m pip install --dry-run --quiet --no-deps "$$cpu" 2>/dev/null || lock=requirements.cpu.lock; \
	fi; \
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --require-hashes --requirement $$lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation $(patsubst %,--editable %,. $(WORKLOADS:/pyproject.toml=))
	touch $@

# What nnU-Net needs besides requirements.lock. One package has no wheel; it is built with the setuptools that is locked.
$(VENV)/.nnunet: $(VENV)/.installed requirements.nnunet.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-compile --no-build-isolation --require-hashes --requirement requirements.nnunet.lock
	touch $@

# Write the lock files from pyproject.toml and the workloads', for Linux on x86-64 and aarch64, and Python 3.11 or newer. Pins stay
# as they are if they still fit; `make lock UPGRADE=--upgrade` takes the newest. The CPU build comes from PyTorch's index;
# `make lock CPU="--find-links FOLDER"` takes it from elsewhere.
CPU ?= --torch-backend cpu
# The workloads require the instrument and their libraries as distributions, so these bring their own requirements.
LIBRARIES := $(filter-out $(patsubst workloads/%/workload.yaml,%,$(wildcard workloads/*/workload.yaml)),$(WORKLOADS:workloads/%/pyproject.toml=%))
PIN := $(BIN)/uv pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-emit-index-url
COMPILE = echo "speedproof$(1) @ file://$(CURDIR)" >$(VENV)/instrument.txt \
	$(foreach name,$(LIBRARIES),&& echo "speedproof-$(name) @ file://$(CURDIR)/workloads/$(name)" >>$(VENV)/instrument.txt) && UV_CUSTOM_COMPILE_COMMAND="make lock" \
	$(PIN) --no-emit-package speedproof $(patsubst %,--no-emit-package speedproof-%,$(LIBRARIES)) $(UPGRADE) $(WORKLOADS) $(VENV)/instrument.txt
EVERYTHING := [workflow,perfetto,mcp,dev]
lock: $(VENV)/.installed
	$(call COMPILE,$(EVERYTHING)) --annotation-style line --output-file requirements.lock
	sed -i '1i # The whole environment, each file by its hash; torch as the public index has it, built for CUDA:\n# pip install --no-deps --require-hashes --requirement requirements.lock' requirements.lock
	grep -o '^torch==[^ ]*' requirements.lock | sed 's/$$/+cpu/' >$(VENV)/torch-cpu.txt
	$(call COMPILE,$(EVERYTHING)) --no-annotate --constraint requirements.lock --constraint $(VENV)/torch-cpu.txt $(CPU) --output-file requirements.cpu.lock
	sed -i '1i # The environment of requirements.lock without a GPU: torch is the CPU build that PyTorch publishes on an index of its own,\n# which your pip must know (PIP_EXTRA_INDEX_URL, or PIP_FIND_LINKS for a folder with the file).' requirements.cpu.lock
	UV_CUSTOM_COMPILE_COMMAND="make lock" $(PIN) --annotation-style line $(UPGRADE) --constraint requirements.lock \
		$$(sed -n 's/^\([^ #]*\)==.*/--no-emit-package \1/p' requirements.lock) \
		workloads/accelerate/pyproject.toml --extra nnunet --output-file requirements.nnunet.lock
	sed -i -e '1i # What the extra `nnunet` of workloads/accelerate needs besides requirements.lock: `make nnunet` installs it.' \
		-e '/^# The following packages were excluded/,$$d' requirements.nnunet.lock
	$(call COMPILE) --no-annotate --constraint requirements.cpu.lock $(CPU) --no-emit-package torch --no-emit-package setuptools --output-file containers/requirements.txt
	sed -i '1i # What the package imports and all that this needs, but torch and setuptools: they are the base image'"'"'s own.\n# What the base image pins itself (in the file that PIP_CONSTRAINT names) is not taken from here: see install.py.' containers/requirements.txt

# Look up known vulnerabilities of the pinned packages; fails if the public database cannot be reached.
audit: $(VENV)/.installed
	bash .ci/audit.sh

clean:
	rm -rf $(VENV) results .snakemake
