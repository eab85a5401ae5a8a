"""`tandem ab`: what a module gains here, on the user's own links against servers of others. See docs/ab.md."""
