class_name LanistaGridSensor3D
extends Node3D
## Cells around the node, in its horizontal plane: how many bodies of each layer of [member detection_mask] overlap
## each cell.

const Sensing := preload("sensing.gd")

const MOST_BODIES := 32

## The layers that are counted, each for itself.
@export_flags_3d_physics var detection_mask := 1
@export var collide_with_areas := false
@export var collide_with_bodies := true
## Meters along x and z.
@export_range(0.1, 10, 0.1, "or_greater") var cell_width := 1.0
## Meters along y.
@export_range(0.1, 10, 0.1, "or_greater") var cell_height := 1.0
@export_range(1, 21, 1, "or_greater") var grid_size_x := 3
@export_range(1, 21, 1, "or_greater") var grid_size_z := 3
## Observe [layers, grid_size_z, grid_size_x], for policies with convolutions, instead of a flat list: x, then z,
## then layers.
@export var as_table := false


## The counts, as [member as_table] says.
func get_observation() -> Array:
	var places := Sensing.layers_of(detection_mask)
	var shape := BoxShape3D.new()
	shape.size = Vector3(cell_width, cell_height, cell_width)
	var query := PhysicsShapeQueryParameters3D.new()
	query.shape = shape
	query.collision_mask = detection_mask
	query.collide_with_areas = collide_with_areas
	query.collide_with_bodies = collide_with_bodies
	query.exclude = Sensing.own_body(self)
	var space := get_world_3d().direct_space_state
	var counts: Array[PackedFloat32Array] = []
	for x in grid_size_x:
		for z in grid_size_z:
			var center := Vector3(x - floori(grid_size_x / 2.0), 0.0, z - floori(grid_size_z / 2.0)) * cell_width
			query.transform = global_transform * Transform3D(Basis.IDENTITY, center)
			counts.append(Sensing.count(space.intersect_shape(query, MOST_BODIES), places))
	return Sensing.arrange(counts, grid_size_x, grid_size_z, places.size(), as_table)


func get_observation_space() -> Dictionary:
	var layers := Sensing.layers_of(detection_mask).size()
	var size := [layers, grid_size_z, grid_size_x] if as_table else [grid_size_x * grid_size_z * layers]
	return {"size": size, "space": "box"}


func observation_name() -> String:
	return Sensing.observation_name(self)
