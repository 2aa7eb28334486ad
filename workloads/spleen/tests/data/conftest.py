from tests.results.conftest import no_terminal, publisher

__all__ = ["no_terminal", "publisher"]
