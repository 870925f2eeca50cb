extends SceneTree
## Plays every case of cases.json, {"brain": path, "steps": [{"obs": [...], "mask": [...]}], "deterministic": bool,
## "repeat": int, "forgetful": bool}, each agent with a memory of its own, and writes its actions to results.json. With
## "microseconds": n, measures decisions for so long instead, forty times, and writes the least mean time of one.

const Brain := preload("res://addons/lanista/brains/brain.gd")


func _init() -> void:
	var results := []
	for case: Dictionary in JSON.parse_string(FileAccess.get_file_as_string("res://cases.json")):
		var brain := Brain.load(case["brain"])
		if brain == null:
			results.append(null)
		elif case.has("microseconds"):
			results.append(_measure(brain, case))
		else:
			results.append(_play(brain, case))
	var file := FileAccess.open("res://results.json", FileAccess.WRITE)
	file.store_string(JSON.stringify(results, "", false, true))
	file.close()
	quit()


func _play(brain: Brain, case: Dictionary) -> Array:
	var decided := []
	var memory = null if case.get("forgetful", false) else brain.new_memory()
	for step: Dictionary in case["steps"]:
		for k in int(case.get("repeat", 1)):
			if step.get("begins", false) and memory != null:
				memory.reset()
			decided.append(brain.decide(step["obs"].map(_as_given), step.get("mask", []), memory, case["deterministic"]))
	return decided


func _measure(brain: Brain, case: Dictionary) -> float:
	var memory := brain.new_memory()
	var obs: Array = case["steps"][0]["obs"].map(_as_given)
	for k in obs.size():
		if obs[k] is Array:
			obs[k] = PackedFloat32Array(obs[k])
	var least := INF
	for k in 40:
		var start := Time.get_ticks_usec()
		var count := 0
		while Time.get_ticks_usec() - start < case["microseconds"]:
			for decision in 10:
				brain.decide(obs, [], memory, case["deterministic"])
			count += 10
		least = minf(least, float(Time.get_ticks_usec() - start) / count)
	return least


## {"bytes": [...]} is an image.
func _as_given(row: Variant) -> Variant:
	if row is Dictionary:
		return PackedByteArray(row["bytes"])
	return row
