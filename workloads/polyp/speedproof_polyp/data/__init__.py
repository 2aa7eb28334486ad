"""Where the pairs come from: a registry and its download, a folder, a stand-in; and whether they are all there."""

from pathlib import Path

REGISTRY = Path(__file__).with_name("registry.yaml")
