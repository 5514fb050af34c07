"""The proof that every typed method answers the same over every transport, by calls that are made on all of them."""
