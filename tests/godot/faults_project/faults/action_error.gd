extends Walker


func set_action(action) -> void:
	speed = action["mov"][0]
