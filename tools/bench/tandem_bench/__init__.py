"""Benches: paired runs of cases and arms on equal seeds, judged against goals. See docs/benches.md."""
