"""Statistics: collected per behaviour, summed up, written to TensorBoard, the console and a display."""
