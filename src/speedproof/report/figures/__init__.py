"""The figures of a report. Each module draws one subject, each function one figure."""
