extends Walker

signal arrived


func place_body() -> void:
	await arrived
	super()
