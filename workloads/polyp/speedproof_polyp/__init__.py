"""ResUNet++ on Kvasir-SEG as GIST documents it, in TensorFlow and in PyTorch: what `workload.yaml` names."""
