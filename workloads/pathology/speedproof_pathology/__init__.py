"""Metastasis detection in whole slides as MONAI's tutorials document it: a workload of speedproof."""
