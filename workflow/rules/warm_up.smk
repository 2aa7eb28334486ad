# The discarded first run of each command of a proof (`speedproof prove --profile`), on the machine of its runs. Called by name.


rule warm_up:
    output:
        f"{RESULTS}/warm-up.json",
    log:
        f"{RESULTS}/logs/warm-up.log",
    resources:
        **request_resources(CONFIG.experiment_resources(), exclusive=True),
    params:
        config=Path("proof.json").absolute(),
    shell:
        "python3 -m speedproof warm-up --config={params.config:q} --out={output:q} --log={log:q}"
