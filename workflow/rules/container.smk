# The image of jobs with --use-singularity, and its digest in a small file, so that its content and not its time decides reruns.


localrules:
    image,


# This step alone runs outside of the container. It is a `run` block, since Snakemake's lint wants a container for `shell`.
MAKE_IMAGE = (
    "python3 -m speedproof image --config={CONFIG_FILE:q} --definition={params.definition:q}"
    " --record={output.record:q} --log={log:q}"
)


if is_given(CONFIG.container):

    rule image:
        input:
            ancient(IMAGE),
        output:
            record=IMAGE_RECORD,
        log:
            f"{RESULTS}/logs/image.log",
        container:
            None
        params:
            definition=BASE / "containers",
            identity=IMAGE_IDENTITY,
        run:
            shell(MAKE_IMAGE)

else:

    rule image:
        input:
            expand("{folder}/{file}", folder=BASE / "containers", file=IMAGE_SOURCES),
        output:
            IMAGE,
            record=IMAGE_RECORD,
        log:
            f"{RESULTS}/logs/image.log",
        container:
            None
        params:
            definition=BASE / "containers",
            source=CONFIG.container.image or CONFIG.container.base,
        run:
            shell(MAKE_IMAGE)
