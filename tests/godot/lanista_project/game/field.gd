extends Node2D
## A team gathers fruit: collectors share rewards, and one that touches the thorn is out until the round ends, with the
## third fruit or the last of them. A painter beside the field is paid for naming the quarter with the fruit.

const HALF := 50.0
const COLLECTORS := 3

@export var collector: PackedScene

var fruit := Vector2.ZERO
var thorn := Vector2.ZERO
var gathered := 0

@onready var team: LanistaGroup = $Team
@onready var painter: LanistaAgent2D = $Painter


func _ready() -> void:
	painter.reset_requested.connect(func() -> void: pass)
	_begin_round()


func _physics_process(_delta: float) -> void:
	if team.get_members().is_empty():
		_begin_round()
	for agent: Node in team.get_members():
		if agent.position.distance_to(fruit) < LanistaSync.parameter("reach", 20.0):
			_gather()
		elif agent.position.distance_to(thorn) < 5.0:
			agent.add_reward(-1.0)
			agent.end_episode()
			agent.queue_free()


func somewhere() -> Vector2:
	return Vector2(randf_range(-HALF, HALF), randf_range(-HALF, HALF))


func _gather() -> void:
	gathered += 1
	team.add_reward(1.0)
	fruit = somewhere()
	if gathered == 3:
		LanistaSync.add_statistic("Field/Survivors", team.get_members().size())
		team.end_episode()
		painter.end_episode(true)
		_begin_round()


func _begin_round() -> void:
	gathered = 0
	fruit = somewhere()
	thorn = somewhere()
	for missing in COLLECTORS - team.get_members().size():
		var agent: LanistaAgent2D = collector.instantiate()
		agent.group = team
		agent.init(self)
		add_child(agent)
