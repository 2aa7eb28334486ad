# A block: one job that has the machine and its GPU for itself, since two measuring jobs beside each other spoil both. On several
# nodes it starts outside of the container, where srun is, and enters the container on each.

NODES = CONFIG.block_nodes()


rule block:
    input:
        IMAGE_NEEDED,
        ASKED,
        dataset=DATASET,
    output:
        f"{RESULTS}/blocks/{{block}}/block.json",
    log:
        f"{RESULTS}/logs/{{block}}.log",
    container:
        IMAGE if NODES == 1 else None
    threads: CORES
    resources:
        **request_resources(CONFIG.block_resources(), exclusive=True, nodes=NODES),
    params:
        config=CONFIG_FILE,
        image=[f"--image={IMAGE_RECORD}", *([f"--container={IMAGE}"] if NODES > 1 else [])] if CONTAINERISED else [],
        folder=lambda wildcards, output: Path(output[0]).parent,
        settings=settings_of_blocks(),
        sources=sources_of("block"),
    shell:
        "python3 -m speedproof block --config={params.config:q} --dataset={input.dataset:q} --name={wildcards.block:q}"
        " {params.image:q} --out={params.folder:q} --log={log:q}"
