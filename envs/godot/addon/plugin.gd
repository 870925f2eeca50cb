@tool
extends EditorPlugin
## Says in the editor what a scene with agents lacks, each time it is saved. The nodes work without it.

const SceneCheck := preload("core/scene_check.gd")


func _enter_tree() -> void:
	scene_saved.connect(_check)


func _exit_tree() -> void:
	scene_saved.disconnect(_check)


func _check(path: String) -> void:
	var root := EditorInterface.get_edited_scene_root()
	if root == null or root.scene_file_path != path:
		return
	for text in SceneCheck.warnings_of(root):
		push_warning("Lanista: %s: %s" % [path, text])
