"""A labelled corpus of secrets and look-alikes, built at run time from shapes: nothing in these files is, or looks like, a live secret."""
