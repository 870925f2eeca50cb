extends LanistaAgent2D
## Acts on a brain, and prints what it observed, what it must not do and what it did.

var decisions := 0
var impossible := {}


func get_obs() -> Dictionary:
	return {"obs": [decisions * 0.5, -1.0, decisions % 3], "gear": decisions % 4, "unread": 1.0}


func get_obs_space():
	return {
		"obs": {"size": [3], "space": "box"},
		"gear": {"size": 4, "space": "discrete"},
		"unread": {"size": [1], "space": "box"},
	}


func get_action_space() -> Dictionary:
	return {"move": {"size": 3, "action_type": "continuous"}, "jump": {"size": 3, "action_type": "discrete"}}


func get_disabled_actions() -> Dictionary:
	impossible = {} if decisions % 2 else {"jump": [decisions % 3]}
	return impossible


func set_action(action) -> void:
	print("decided ", JSON.stringify({"impossible": impossible.get("jump", []), "action": action}))
	decisions += 1
	if decisions == 3:
		end_episode()


func _physics_process(delta: float) -> void:
	super(delta)
	if needs_reset:
		reset()
