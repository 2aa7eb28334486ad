# What a dry run says besides: GPU minutes by past records, disk and download.

if {"-n", "--dry-run", "--dryrun"} & set(sys.argv):
    from speedproof.run.archive.cost import describe_cost, estimate_cost

    for sentence in describe_cost(estimate_cost(CONFIG, [BASE / "records", Path(RESULTS)])):
        print(sentence, file=sys.stderr)
