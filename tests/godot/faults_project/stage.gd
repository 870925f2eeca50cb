extends Node2D
## Two walkers with the script that the argument --fault=NAME names; a script of another node joins two sound ones.


func _enter_tree() -> void:
	var fault := ""
	for argument in OS.get_cmdline_args():
		if argument.begins_with("--fault="):
			fault = argument.trim_prefix("--fault=")
	var script: GDScript = load("res://faults/%s.gd" % fault)
	var one: Node = script.new()
	var walkers := [one, script.new()] if one is LanistaAgent2D else [one, Walker.new(), Walker.new()]
	for index in walkers.size():
		walkers[index].name = "Walker%d" % index if walkers[index] is LanistaAgent2D else "Director"
		add_child(walkers[index])
