# An experiment: one job with a machine and its GPU to itself, since two jobs that measure at once spoil each other's times. On
# several nodes it starts outside of the container, which has no srun, and enters the container on each node.

NODES = CONFIG.experiment_nodes()


rule experiment:
    input:
        IMAGE_NEEDED,
        ASKED,
        dataset=DATASET,
    output:
        f"{RESULTS}/experiments/{{experiment}}/experiment.json",
    log:
        f"{RESULTS}/logs/{{experiment}}.log",
    container:
        IMAGE if NODES == 1 else None
    threads: CORES
    resources:
        **request_resources(CONFIG.experiment_resources(), exclusive=True, nodes=NODES),
    params:
        config=CONFIG_FILE,
        image=[f"--image={IMAGE_RECORD}", *([f"--container={IMAGE}"] if NODES > 1 else [])] if CONTAINERISED else [],
        folder=lambda wildcards, output: Path(output[0]).parent,
        settings=settings_of_experiments(),
        sources=sources_of("experiment"),
    shell:
        "python3 -m speedproof experiment --config={params.config:q} --dataset={input.dataset:q} --name={wildcards.experiment:q}"
        " {params.image:q} --out={params.folder:q} --log={log:q}"
