"""What ends the program, in words for a user."""

from tandem_common.errors import BadInput, Failure

__all__ = ["BadInput", "Failure"]
