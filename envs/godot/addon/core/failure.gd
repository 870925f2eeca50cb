extends RefCounted
## What ends a session: a mistake of the game or of the trainer, told once, in a sentence.

static var happened := false


static func stop(text: String) -> void:
	if not happened:
		push_error("Lanista: " + text)
	happened = true
