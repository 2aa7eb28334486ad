#!/bin/sh
# tensorflow.sh WORDS…: runs Python, with these words, where TensorFlow is: SPEEDPROOF_TENSORFLOW_PYTHON, or the first python3 of
# the path, as in an image of TensorFlow.
exec "${SPEEDPROOF_TENSORFLOW_PYTHON:-python3}" "$@"
