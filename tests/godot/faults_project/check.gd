extends SceneTree
## Prints what the editor would warn of in the scenes that are named after `--`.


func _init() -> void:
	var check: GDScript = load("res://addons/lanista/core/scene_check.gd")
	for path in OS.get_cmdline_user_args():
		var scene: Node = load(path).instantiate()
		for text: String in check.warnings_of(scene):
			print("%s: %s" % [path.get_file(), text])
		scene.free()
	quit()
