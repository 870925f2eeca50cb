"""HTTP/2 and gRPC without protobuf: sans-IO core plus sockets."""
