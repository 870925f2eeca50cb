extends Node

var frames := 0


func _physics_process(_delta: float) -> void:
	frames += 1
	if frames == 60:
		get_parent().process_mode = Node.PROCESS_MODE_DISABLED
