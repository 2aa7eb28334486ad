"""Brain tumour segmentation as MONAI's tutorials document it: a workload of speedproof."""
