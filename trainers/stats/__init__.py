"""Statistics: collected per behavior, summed up, written to TensorBoard, the console and a display."""
