# What the machine that trains can do and measure: asked there whenever an experiment is to run, before anything trains. ASKED is
# removed when the experiments have run, so that only an experiment makes the doctor run again. (`ancient` would order the two as
# well, but a job that depends on a running one by `ancient` alone is skipped, whatever else of it changed.)


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
