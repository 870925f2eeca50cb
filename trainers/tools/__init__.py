"""The tools around training, a module or a folder each; the core imports none of them."""
