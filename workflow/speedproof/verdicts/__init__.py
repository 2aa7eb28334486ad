"""What runs say together: metrics, pairs, intervals, quality, the ladder, and which documented numbers hold."""
