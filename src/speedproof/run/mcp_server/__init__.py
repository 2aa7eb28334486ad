"""`speedproof mcp`: the tools that a language model's agent may call, within limits that a person sets."""
