"""Figures of comparisons, gaps and repeats: frames in, matplotlib axes out."""
