# Check what the training machine can run and measure, before each experiment. ASKED is removed after the experiments, so that only
# an experiment makes the doctor run again. (`ancient` would also order the two, but Snakemake skips a job that depends on a running
# job by `ancient` alone, even if its other inputs changed.)


rule doctor:
    input:
        IMAGE_NEEDED,
    output:
        found=report(DOCTOR, caption="../report/doctor.rst", category="Evidence"),
        asked=temp(touch(ASKED)),
    log:
        f"{RESULTS}/logs/doctor.log",
    resources:
        **request_resources(CONFIG.resources.doctor()),
    params:
        config=CONFIG_FILE,
    shell:
        "python3 -m speedproof doctor --config={params.config:q} --out={output.found:q} --log={log:q}"
