"""The communicator protocol: its messages, the codec between bytes and arrays, and both ends of the wire."""
