"""A package of the environment: how long an epoch takes."""

PACE = 1
