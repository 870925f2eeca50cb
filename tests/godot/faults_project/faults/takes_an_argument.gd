extends Walker


func _ready() -> void:
	reset_requested.connect(place_at)


func place_at(place: float, _speed := 0.0) -> void:
	place_x = place
