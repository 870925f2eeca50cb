extends Walker


func place_body() -> void:
	get_parent().start.x = 1
