# A dry run also prints the cost: GPU minutes estimated from records, disk and download.

if {"-n", "--dry-run", "--dryrun"} & set(sys.argv):
    from speedproof.run.archive.cost import describe_cost, estimate_cost

    for sentence in describe_cost(estimate_cost(CONFIG, [BASE / "records", Path(RESULTS)])):
        print(sentence, file=sys.stderr)
