class_name LanistaCameraSensor3D
extends Node3D
## A camera at the node's place, whose picture an agent observes. It shows the frame that was drawn last, which at a
## decision is the present one where each physics frame is drawn. Under [code]--headless[/code] there is no picture.

const Observations := preload("../core/observations.gd")
const Sensing := preload("sensing.gd")

## Width and height in pixels.
@export var resolution := Vector2i(36, 36)
## One channel of brightness instead of red, green and blue.
@export var grayscale := false
## The vertical angle of view in degrees.
@export_range(1, 179) var fov := 75.0

var _viewport := SubViewport.new()
var _camera := Camera3D.new()


func _ready() -> void:
	_viewport.size = resolution
	_viewport.render_target_update_mode = SubViewport.UPDATE_ALWAYS
	_viewport.world_3d = get_viewport().find_world_3d()
	_camera.fov = fov
	_viewport.add_child(_camera)
	add_child(_viewport)


func _process(_delta: float) -> void:
	_camera.global_transform = global_transform


## The picture; null where nothing is drawn.
func get_observation() -> Image:
	if DisplayServer.get_name() == "headless":
		return null
	return _viewport.get_texture().get_image()


func get_observation_space() -> Dictionary:
	return {"size": get_camera_shape(), "space": "box"}


func observation_name() -> String:
	return Sensing.observation_name(self, true)


## The picture's bytes in hex, for scripts that were written for godot_rl_agents.
func get_camera_pixel_encoding() -> String:
	return Observations.to_pixels(get_observation(), get_camera_shape()).hex_encode()


## Channels, height, width.
func get_camera_shape() -> Array:
	return [1 if grayscale else 3, resolution.y, resolution.x]
