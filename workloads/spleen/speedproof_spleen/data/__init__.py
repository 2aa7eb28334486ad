"""Where labelled volumes come from: a registry and its downloads, a folder, a phantom; and whether they are sound."""

from pathlib import Path

REGISTRY = Path(__file__).with_name("registry.yaml")
