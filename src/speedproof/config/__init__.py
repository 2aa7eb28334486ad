"""The configuration: typed models, how a file becomes one, and the JSON schema that editors and people read."""
