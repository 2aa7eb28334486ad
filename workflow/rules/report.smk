# The report: figures, report.md and report.html. Snakemake's own report (--report) starts with the same first screen.

if any(argument.split("=")[0] == "--report" for argument in sys.argv):
    from speedproof.report.snakemake_report import describe_results

    try:
        config["found"] = describe_results(Path(RESULTS))
    except SpeedproofError as error:
        sys.exit(f"speedproof: {error}")


localrules:
    report,


rule report:
    input:
        COMPARISON,
        analyses(),
        DOCTOR,
    output:
        report(REPORT, caption="../report/page.rst", category="Results"),
        report(f"{RESULTS}/report.md", caption="../report/words.rst", category="Results"),
        report(
            directory(f"{RESULTS}/figures"),
            patterns=["{figure}.svg"],
            caption="../report/figure.rst",
            category="Figures",
            labels={"figure": "{figure}"},
        ),
    log:
        f"{RESULTS}/logs/report.log",
    params:
        results=lambda wildcards, output: Path(output[0]).parent,
        sources=sources_of("report"),
    shell:
        "python3 -m speedproof results report --from={params.results:q} --log={log:q}"
