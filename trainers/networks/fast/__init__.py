"""Fast forms of what `modules` and the networks define.

Each computes the same, and its file says of what and when it is used; tests compare the two. The networks
read as their papers without this folder.
"""
