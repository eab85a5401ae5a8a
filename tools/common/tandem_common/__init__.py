"""What Python programs of this repository share; none imports another for it."""
