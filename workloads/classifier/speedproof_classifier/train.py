"""`src/train.py`, from its facts: no profiler at all."""

from speedproof_classifier.loop import plain_step, prepare, test, train


def main() -> None:
    """Train two epochs."""
    training = prepare()
    train(training, 2, plain_step)
    test(training)


if __name__ == "__main__":
    main()
