"""`python -m tenon bench --vs torch,inductor,...`: the same graph in other libraries, checked and timed beside Tenon."""
