@tool
class_name LanistaRaySensor2D
extends Node2D
## Rays that tell how near bodies are: 0 for nothing in reach, 1 for touching; then, for each of
## [member detectable_groups], 1 if the body is in that group.

const Sensing := preload("sensing.gd")

## The layers that the rays see.
@export_flags_2d_physics var collision_mask := 1
@export var collide_with_areas := false
@export var collide_with_bodies := true
## Groups of nodes that each ray tells apart.
@export var detectable_groups: Array[StringName] = []
@export_range(1, 64, 1, "or_greater") var n_rays := 16:
	set(value):
		n_rays = value
		queue_redraw()
## Pixels.
@export_range(1, 3000, 1, "or_greater") var ray_length := 200.0:
	set(value):
		ray_length = value
		queue_redraw()
## The angle in degrees over which the rays spread, around the node's x axis.
@export_range(0, 360) var cone_width := 360.0:
	set(value):
		cone_width = value
		queue_redraw()
## Draw the rays in the game, too; the editor always does.
@export var debug_draw := false

var _seen := PackedFloat32Array()


## For each ray from the first to the last angle: nearness, then the groups.
func get_observation() -> PackedFloat32Array:
	_seen = PackedFloat32Array()
	var query := PhysicsRayQueryParameters2D.new()
	query.from = global_position
	query.collision_mask = collision_mask
	query.collide_with_areas = collide_with_areas
	query.collide_with_bodies = collide_with_bodies
	query.exclude = Sensing.own_body(self)
	var space := get_world_2d().direct_space_state
	for index in n_rays:
		query.to = to_global(_target(index))
		var length := query.from.distance_to(query.to)
		_seen.append_array(Sensing.ray(space.intersect_ray(query), query.from, length, detectable_groups))
	if debug_draw:
		queue_redraw()
	return _seen


func get_observation_space() -> Dictionary:
	return {"size": [n_rays * (1 + detectable_groups.size())], "space": "box"}


func observation_name() -> String:
	return Sensing.observation_name(self)


func _target(index: int) -> Vector2:
	return Vector2.from_angle(deg_to_rad((index + 0.5) * cone_width / n_rays - cone_width / 2.0)) * ray_length


func _draw() -> void:
	if not (debug_draw or Engine.is_editor_hint()):
		return
	for index in n_rays:
		var place := index * (1 + detectable_groups.size())
		var nearness := _seen[place] if place < _seen.size() else 0.0
		draw_line(Vector2.ZERO, _target(index) * (1.0 - nearness), Color.RED if nearness > 0.0 else Color.GREEN)
