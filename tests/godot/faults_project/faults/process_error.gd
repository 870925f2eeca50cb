extends Walker


func _physics_process(delta: float) -> void:
	super(delta)
	get_node("Legs").step(delta)
