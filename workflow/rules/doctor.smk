# What the machine that trains can do and measure: asked there, before anything trains.


rule doctor:
    input:
        IMAGE_NEEDED,
    output:
        DOCTOR,
    log:
        f"{RESULTS}/logs/doctor.log",
    resources:
        **request_resources(CONFIG.resources.doctor()),
    params:
        config=CONFIG_FILE,
        settings=settings_of("measurement", "profiling"),
        scratch=CONFIG.resources.scratch,
        sources=sources_of("doctor"),
    shell:
        "python3 -m speedproof doctor --config={params.config:q} --out={output:q} --log={log:q}"
