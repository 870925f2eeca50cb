extends Walker


func _ready() -> void:
	reset_requested.connect(func(): speed = 0.0; place_body())


func place_body() -> void:
	await get_tree().create_timer(0.5).timeout
	super()
