# Analyze each trace, then compare the experiments.


localrules:
    compare,


rule analyze:
    input:
        f"{RESULTS}/experiments/{{experiment}}/experiment.json",
    output:
        f"{RESULTS}/analysis/{{experiment}}/{{run}}/summary.json",
    log:
        f"{RESULTS}/logs/analysis/{{experiment}}-{{run}}.log",
    resources:
        **request_resources(CONFIG.resources.analysis),
    params:
        trace=lambda wildcards: traces_of(wildcards.experiment, wildcards.run)[0],
        folder=lambda wildcards, output: Path(output[0]).parent,
        sources=sources_of("analysis"),
    shell:
        "python3 -m speedproof trace analyze {params.trace:q} --out={params.folder:q} --may-be-empty --no-page --quiet --log={log:q}"


rule ranks:
    input:
        f"{RESULTS}/experiments/{{experiment}}/experiment.json",
    output:
        f"{RESULTS}/analysis/{{experiment}}/{{run}}/ranks.json",
    log:
        f"{RESULTS}/logs/analysis/{{experiment}}-{{run}}-ranks.log",
    resources:
        **request_resources(CONFIG.resources.analysis),
    params:
        traces=lambda wildcards: traces_of(wildcards.experiment, wildcards.run),
        folder=lambda wildcards, output: Path(output[0]).parent,
        sources=sources_of("analysis"),
    shell:
        "python3 -m speedproof trace ranks {params.traces:q} --out={params.folder:q} --log={log:q}"


rule compare:
    input:
        expand("{results}/experiments/{experiment}/experiment.json", results=RESULTS, experiment=CONFIG.experiments()),
        analyses(),
        claims=WORKLOAD.claims,
    output:
        report(COMPARISON, caption="../report/numbers.rst", category="Evidence"),
    log:
        f"{RESULTS}/logs/comparison.log",
    params:
        results=lambda wildcards, output: Path(output[0]).parent,
        titles=titles_of_variants(),
        sources=sources_of("comparison"),
    shell:
        "python3 -m speedproof verdicts --from={params.results:q} --claims={input.claims:q} --log={log:q}"
