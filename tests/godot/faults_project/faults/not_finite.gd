extends Walker


func _physics_process(delta: float) -> void:
	super(delta)
	LanistaSync.add_statistic("Speed", 1.0 / (speed - speed))
