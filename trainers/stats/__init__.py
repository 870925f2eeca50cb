"""Statistics: collected per behavior, summarized, written to TensorBoard, the console and a display."""
