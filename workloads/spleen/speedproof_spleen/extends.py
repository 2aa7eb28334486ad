"""Variants that are written as another one and what differs: `extends`."""

from collections.abc import Mapping
from typing import Any

EXTENDS = "extends"
MOST_VARIANTS = 500


def complete_variants(variants: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variants with `extends` resolved: the other variant's keys, each replaced whole if the variant has it, too.

    Values that are not mappings are left for the model to reject.

    Raises:
        ValueError: a variant extends an unknown one, or itself through others; or there are too many.
    """
    if len(variants) > MOST_VARIANTS:
        raise ValueError(f"variants: {len(variants)} of them, {MOST_VARIANTS} are allowed; split the configuration")
    return {name: _complete(name, variants, seen=()) for name in variants}


def _complete(name: str, variants: Mapping[str, Any], seen: tuple[str, ...]) -> Any:
    variant = variants[name]
    if not isinstance(variant, Mapping) or EXTENDS not in variant:
        return variant
    base = variant[EXTENDS]
    if not isinstance(base, str):
        raise ValueError(f"variants.{name}.extends: must be the name of one variant, not {type(base).__name__}")
    if base not in variants:
        raise ValueError(f"variants.{name}.extends: unknown variant `{base}`; known are {', '.join(sorted(variants))}")
    if base in (*seen, name):
        raise ValueError(f"variants.{name}.extends: leads back to `{base}`; a variant cannot extend itself")
    inherited = _complete(base, variants, (*seen, name))
    own = {key: value for key, value in variant.items() if key != EXTENDS}
    return {**inherited, **own} if isinstance(inherited, Mapping) else own


def allow_extending(schema: dict[str, Any]) -> None:
    """Change a variant's JSON schema: one that `extends` another need not say everything."""
    extends = {"type": "string", "description": "Another variant, whose keys this one has where it gives none of its own"}
    schema["properties"] = {EXTENDS: extends, **schema["properties"]}
    schema["anyOf"] = [{"required": [EXTENDS]}, {"required": schema.pop("required")}]
