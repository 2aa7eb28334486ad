"""`src/train-profiler.py`, from its facts: `train` with torch.profiler around all epochs, shapes and memory included.

It prints the ten kernels that took longest and writes its trace into the working folder.
"""

from torch.profiler import ProfilerActivity, profile

from speedproof_classifier.loop import plain_step, prepare, test, train

TRACE_FILE = "tinyimagenet.json"


def main() -> None:
    """Train two epochs."""
    training = prepare()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, record_shapes=True, profile_memory=True) as profiler:
        train(training, 2, plain_step)
    print(profiler.key_averages().table(sort_by="device_time_total", row_limit=10))
    profiler.export_chrome_trace(TRACE_FILE)
    test(training)


if __name__ == "__main__":
    main()
