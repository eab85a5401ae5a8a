"""One module a bench; ../catalogue.py names them."""
