extends Walker
## Looks whether its episode is over where it is asked for its reward, and where it is asked what it observes.

var length := 0
var ends := 0


func place_body() -> void:
	super()
	length = 0
	ends += 1


func get_obs() -> Dictionary:
	if length > 20 and ends % 2 == 0:
		done = true
		needs_reset = true
	return super()


func get_reward() -> float:
	if length > 20 and ends % 2 == 1:
		end_episode()
	return super()


func _physics_process(delta: float) -> void:
	super(delta)
	length += 1
	if length == 40:
		push_error("the episode goes on")
	if length == 1 and ends > 1:
		LanistaSync.add_statistic("Ends", ends)
