"""The command line: what people type, and the steps that the workflow's rules call."""


def main() -> None:
    """Run the command line."""
    from speedproof.cli.application import app
    from speedproof.cli.ending import run_app

    run_app(app)
