extends Node2D
## Frees all agents when the trainer asks for a new beginning, and brings others.

@export var puppet: GDScript


func _ready() -> void:
	$Sync.environment_reset.connect(_begin)
	_begin()


func _begin() -> void:
	for agent: Node in find_children("*", "LanistaAgent2D", true, false):
		agent.queue_free()
	for index in int(LanistaSync.parameter("agents", 1.0)):
		var agent: Node = puppet.new()
		agent.listens = true
		agent.policy_name = "puppet"
		add_child(agent)
