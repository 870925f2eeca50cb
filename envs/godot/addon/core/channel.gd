extends RefCounted
## The socket to the trainer: messages are JSON in UTF-8 behind its length in bytes as u32, little-endian.

const Failure := preload("failure.gd")

## More than any trainer sends: a larger number comes from a peer that speaks something else.
const LONGEST := 1 << 28

var _stream := StreamPeerTCP.new()


## Connect; a trainer may need a moment until it listens.
func open(host: String, port: int, patience_ms: int) -> bool:
	var start := Time.get_ticks_msec()
	while true:
		_stream = StreamPeerTCP.new()
		if _stream.connect_to_host(host, port) == OK:
			while _stream.get_status() == StreamPeerTCP.STATUS_CONNECTING and Time.get_ticks_msec() - start < patience_ms:
				OS.delay_msec(1)
				_stream.poll()
			if _stream.get_status() == StreamPeerTCP.STATUS_CONNECTED:
				_stream.set_no_delay(true)
				return true
		if Time.get_ticks_msec() - start >= patience_ms:
			return false
		OS.delay_msec(100)
	return false


func is_open() -> bool:
	return _stream.get_status() == StreamPeerTCP.STATUS_CONNECTED


func close() -> void:
	_stream.disconnect_from_host()


## Send a message, in one piece.
func send(message: Dictionary) -> void:
	var text := JSON.stringify(message, "", false).to_utf8_buffer()
	var frame := PackedByteArray()
	frame.resize(4)
	frame.encode_u32(0, text.size())
	frame.append_array(text)
	if _stream.put_data(frame) != OK:
		close()


## Wait for a message, asleep. Empty: the trainer has closed the connection, or its message is none.
func receive() -> Dictionary:
	var head := _read(4)
	if head.is_empty():
		return {}
	var length := head.decode_u32(0)
	if length > LONGEST:
		Failure.stop("a message of %d bytes: what listens here is no trainer" % length)
		return {}
	var body := _read(length)
	if body.is_empty():
		return {}
	var message: Variant = JSON.parse_string(body.get_string_from_utf8())
	if message is Dictionary:
		return message
	Failure.stop("the trainer's message is no JSON object: %s" % body.get_string_from_utf8().left(80))
	return {}


func _read(length: int) -> PackedByteArray:
	var read := _stream.get_data(length)
	if read[0] == OK:
		return read[1]
	close()
	return PackedByteArray()
