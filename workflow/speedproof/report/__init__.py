"""From `comparison.json` and the summaries to what people read: figures, a report in Markdown without them, and a page with them."""
