# The data of the workload's programs: download or generate them, check them, write their checksums.


localrules:
    data,


rule data:
    input:
        IMAGE_NEEDED,
    output:
        DATASET,
    log:
        f"{RESULTS}/logs/data-{CONFIG.completed.dataset}.log",
    threads: CORES
    params:
        config=CONFIG_FILE,
        prepare=WORKLOAD.command("prepare", python="python3"),
        settings=settings_of("data"),
        sources=sources_of("data"),
    shell:
        "{params.prepare:q} --config={params.config:q} --out={output:q} --log={log:q}"
