extends Node


func _ready() -> void:
	var team := LanistaGroup.new()
	team.name = "Team"
	add_child(team)
	team.add_reward(1.0)
