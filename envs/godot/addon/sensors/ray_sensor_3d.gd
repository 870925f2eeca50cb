class_name LanistaRaySensor3D
extends Node3D
## Rays that tell how near bodies are: 0 for nothing in reach, 1 for touching; then, for each of
## [member detectable_groups], 1 if the body is in that group. They leave along the node's z axis.

const Sensing := preload("sensing.gd")

## The layers that the rays see.
@export_flags_3d_physics var collision_mask := 1
@export var collide_with_areas := false
@export var collide_with_bodies := true
## Groups of nodes that each ray tells apart.
@export var detectable_groups: Array[StringName] = []
@export_range(1, 64, 1, "or_greater") var n_rays_width := 6
@export_range(1, 64, 1, "or_greater") var n_rays_height := 6
## Meters.
@export_range(0.1, 1000, 0.1, "or_greater") var ray_length := 10.0
## The angle in degrees over which the rays spread sideways.
@export_range(0, 360) var cone_width := 60.0
## The angle in degrees over which the rays spread up and down.
@export_range(0, 180) var cone_height := 60.0


## For each ray, column by column and upward: nearness, then the groups.
func get_observation() -> PackedFloat32Array:
	var seen := PackedFloat32Array()
	var query := PhysicsRayQueryParameters3D.new()
	query.from = global_position
	query.collision_mask = collision_mask
	query.collide_with_areas = collide_with_areas
	query.collide_with_bodies = collide_with_bodies
	query.exclude = Sensing.own_body(self)
	var space := get_world_3d().direct_space_state
	for column in n_rays_width:
		for row in n_rays_height:
			query.to = to_global(_target(column, row))
			var length := query.from.distance_to(query.to)
			seen.append_array(Sensing.ray(space.intersect_ray(query), query.from, length, detectable_groups))
	return seen


func get_observation_space() -> Dictionary:
	return {"size": [n_rays_width * n_rays_height * (1 + detectable_groups.size())], "space": "box"}


func observation_name() -> String:
	return Sensing.observation_name(self)


func _target(column: int, row: int) -> Vector3:
	var aside := deg_to_rad((column + 0.5) * cone_width / n_rays_width - cone_width / 2.0)
	var upward := deg_to_rad((row + 0.5) * cone_height / n_rays_height - cone_height / 2.0)
	return Vector3(sin(aside) * cos(upward), sin(upward), cos(aside) * cos(upward)) * ray_length
