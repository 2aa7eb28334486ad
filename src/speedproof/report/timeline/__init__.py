"""The timeline: what GPUs and threads of a trace do at each moment, to be looked at in a page or elsewhere."""
