"""Writes docs/verdict.schema.json, the JSON schema of what `prove --json` prints: `python -m docs.verdict_schema`."""

import json
from pathlib import Path

from speedproof.run.proof.verdict import Verdict

SCHEMA = Path(__file__).with_name("verdict.schema.json")


def write_schema(path: Path = SCHEMA) -> None:
    """Write the schema, as the verdict's model has it."""
    path.write_text(json.dumps(Verdict.model_json_schema(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write_schema()
