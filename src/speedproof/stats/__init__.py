"""What runs say together: metrics, pairs, intervals, quality, the ablation, and which documented numbers hold."""
