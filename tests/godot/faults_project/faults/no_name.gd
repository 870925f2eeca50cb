extends Walker


func _init() -> void:
	policy_name = ""
