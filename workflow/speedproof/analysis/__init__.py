"""From records to answers: where a trace's time goes, how the sides compare, which documented numbers hold."""
