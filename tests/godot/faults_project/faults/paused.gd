extends Node

var frames := 0


func _ready() -> void:
	process_mode = Node.PROCESS_MODE_ALWAYS


func _physics_process(_delta: float) -> void:
	frames += 1
	if frames == 60:
		get_tree().paused = true
