extends Node

var frames := 0


func _physics_process(_delta: float) -> void:
	frames += 1
	if frames == 300:
		var other: Node = preload("res://faults/longer_from_the_start.gd").new()
		other.name = "Other"
		add_child(other)
