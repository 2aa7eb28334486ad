"""From `comparison.json` and the summaries to what people read: a report in words and tables, figures, a page with both."""
