"""What a dataset, a run, a block, a trace and a comparison are on disk: their schemas, how to read and how to write them.

Nothing here imports another part of speedproof except its errors, and nothing needs torch, a GPU or a container.
"""
