# The labelled volumes: fetched or made, every case opened, checksums written down.


localrules:
    data,


rule data:
    input:
        IMAGE_NEEDED,
    output:
        f"{RESULTS}/data/{{source}}/dataset.json",
    log:
        f"{RESULTS}/logs/data-{{source}}.log",
    threads: CORES
    params:
        config=CONFIG_FILE,
        settings=settings_of("data"),
        sources=sources_of("data"),
    shell:
        "python3 -m speedproof data --config={params.config:q} --out={output:q} --log={log:q}"
