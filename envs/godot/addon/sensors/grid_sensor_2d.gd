@tool
class_name LanistaGridSensor2D
extends Node2D
## Cells around the node: how many bodies of each layer of [member detection_mask] overlap each cell.

const Sensing := preload("sensing.gd")

const MOST_BODIES := 32

## The layers that are counted, each for itself.
@export_flags_2d_physics var detection_mask := 1
@export var collide_with_areas := false
@export var collide_with_bodies := true
## Pixels.
@export_range(1, 200, 0.1, "or_greater") var cell_width := 20.0:
	set(value):
		cell_width = value
		queue_redraw()
## Pixels.
@export_range(1, 200, 0.1, "or_greater") var cell_height := 20.0:
	set(value):
		cell_height = value
		queue_redraw()
@export_range(1, 21, 1, "or_greater") var grid_size_x := 3:
	set(value):
		grid_size_x = value
		queue_redraw()
@export_range(1, 21, 1, "or_greater") var grid_size_y := 3:
	set(value):
		grid_size_y = value
		queue_redraw()
## Observe [layers, grid_size_y, grid_size_x], for policies with convolutions, instead of a flat list: x, then y,
## then layers.
@export var as_table := false


## The counts, as [member as_table] says.
func get_observation() -> Array:
	var places := Sensing.layers_of(detection_mask)
	var shape := RectangleShape2D.new()
	shape.size = Vector2(cell_width, cell_height)
	var query := PhysicsShapeQueryParameters2D.new()
	query.shape = shape
	query.collision_mask = detection_mask
	query.collide_with_areas = collide_with_areas
	query.collide_with_bodies = collide_with_bodies
	query.exclude = Sensing.own_body(self)
	var space := get_world_2d().direct_space_state
	var counts: Array[PackedFloat32Array] = []
	for x in grid_size_x:
		for y in grid_size_y:
			query.transform = global_transform * Transform2D(0.0, _center(x, y))
			counts.append(Sensing.count(space.intersect_shape(query, MOST_BODIES), places))
	return Sensing.arrange(counts, grid_size_x, grid_size_y, places.size(), as_table)


func get_observation_space() -> Dictionary:
	var layers := Sensing.layers_of(detection_mask).size()
	var size := [layers, grid_size_y, grid_size_x] if as_table else [grid_size_x * grid_size_y * layers]
	return {"size": size, "space": "box"}


func observation_name() -> String:
	return Sensing.observation_name(self)


func _center(x: int, y: int) -> Vector2:
	return Vector2((x - floori(grid_size_x / 2.0)) * cell_width, (y - floori(grid_size_y / 2.0)) * cell_height)


func _draw() -> void:
	if Engine.is_editor_hint():
		var size := Vector2(cell_width, cell_height)
		for x in grid_size_x:
			for y in grid_size_y:
				draw_rect(Rect2(_center(x, y) - size / 2.0, size), Color.GREEN, false)
