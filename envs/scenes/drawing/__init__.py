"""How scenes look: images of their worlds, on a canvas."""
