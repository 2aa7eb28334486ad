# speedproof: tests a documented training speedup on your GPU
#   snakemake --cores 8 --use-singularity                                    the full reproduction, in its container
#   snakemake --cores 8                                                      the same in this Python environment
#   snakemake --profile slurm --use-singularity                              on a cluster
#   snakemake --cores 8 --configfile workflow/config/demo.yaml               on any laptop
# workflow/rules/ has the steps and their order; src/speedproof/ has their code.

from pathlib import Path

from snakemake.utils import min_version

min_version("9.27")


# The folder of this file, even if workflow/Snakefile includes it.
BASE = Path(workflow.current_basedir.get_path_or_uri(secret_free=False))

# The configuration of the worked case or of another workload here. A workload elsewhere needs --configfile.
CASE = str(config.get("case", "spleen"))
for file in [Path(BASE, "config.yaml" if CASE == "spleen" else f"workloads/{CASE}/config/full.yaml")]:
    if "/" not in CASE and file.is_file():

        configfile: file


report: "workflow/report/workflow.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/cost.smk"


container: IMAGE


include: "workflow/rules/container.smk"
include: "workflow/rules/doctor.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/experiment.smk"
include: "workflow/rules/warm_up.smk"
include: "workflow/rules/analysis.smk"
include: "workflow/rules/report.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        REPORT,


onerror:
    failures = explain_failures(map(Path, log))
    for line in [*failures, AGAIN] if failures else []:
        print(f"speedproof: {line}", file=sys.stderr)
    for line in failures:
        leave_reason(line)
