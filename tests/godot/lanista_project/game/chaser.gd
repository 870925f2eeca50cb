extends CharacterBody2D
## Chases fruit in a box. Written for the polling of needs_reset, as games for godot_rl_agents are.

@export var half := 100.0
var fruit := Vector2.ZERO
var target_velocity := Vector2.ZERO
var eaten := 0

@onready var agent = $Agent


func _ready() -> void:
	agent.init(self)
	place()


func somewhere() -> Vector2:
	return Vector2(randf_range(-half, half), randf_range(-half, half))


func place() -> void:
	position = somewhere()
	fruit = somewhere()
	eaten = 0


func _physics_process(_delta: float) -> void:
	if agent.needs_reset:
		agent.reset()
		place()
		return
	var before := position.distance_to(fruit)
	velocity = target_velocity.limit_length(1.0) * 120.0
	move_and_slide()
	position = position.clamp(Vector2(-half, -half), Vector2(half, half))
	agent.reward += (before - position.distance_to(fruit)) / half
	if position.distance_to(fruit) < 10.0:
		eaten += 1
		agent.reward += 1.0
		fruit = somewhere()
		if eaten >= 3:
			agent.done = true
			agent.needs_reset = true
