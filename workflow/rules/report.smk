# What a reader opens: figures, report.md and its HTML twin.


localrules:
    report,


rule report:
    input:
        COMPARISON,
        analyses(),
        DOCTOR,
    output:
        REPORT,
        f"{RESULTS}/report.md",
        directory(f"{RESULTS}/figures"),
    log:
        f"{RESULTS}/logs/report.log",
    params:
        results=lambda wildcards, output: Path(output[0]).parent,
        sources=sources_of("report"),
    shell:
        "python3 -m speedproof report --from={params.results:q} --log={log:q}"
