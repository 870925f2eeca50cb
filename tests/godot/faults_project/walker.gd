class_name Walker
extends LanistaAgent2D
## Goes to a goal on a line, 100 frames an episode.

var place_x := 0.0
var goal := 1.0
var speed := 0.0


func _init() -> void:
	reset_after = 100


func _ready() -> void:
	reset_requested.connect(place_body)


func place_body() -> void:
	place_x = 0.0
	goal = randf_range(-1.0, 1.0)


func get_obs() -> Dictionary:
	return {"obs": [place_x, goal]}


func get_action_space() -> Dictionary:
	return {"move": {"size": 1, "action_type": "continuous"}}


func set_action(action) -> void:
	speed = action["move"][0]


func _physics_process(delta: float) -> void:
	place_x += speed * delta
	add_reward(-absf(place_x - goal) * delta)
