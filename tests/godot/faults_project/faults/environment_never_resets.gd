extends Walker

signal faded


func _ready() -> void:
	super()
	get_node("../Sync").environment_reset.connect(_begin)


func _begin() -> void:
	await faded
